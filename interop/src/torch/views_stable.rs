//! View kernels through torch's stable C interface: no Python object, no interpreter lock.
//!
//! torch hands arguments over as 64-bit words that we own: tensors and lists as handles to delete, ints as they are, an
//! optional as null or a pointer to a word. An error has to be a C++ exception, so it is thrown by torch's own check
//! function, through a frame of ours that holds nothing.

use super::views::{Sizes, view_geometry};
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

type Word = u64;
type Handle = *mut c_void;

/// The functions used; all of them, or the Python kernels serve.
struct Shims {
    reinterpret: unsafe extern "C" fn(Handle, i64, *const i64, *const i64, i64, *mut Handle) -> i32,
    delete: unsafe extern "C" fn(Handle) -> i32,
    dim: unsafe extern "C" fn(Handle, *mut i64) -> i32,
    sizes: unsafe extern "C" fn(Handle, *mut *mut i64) -> i32,
    strides: unsafe extern "C" fn(Handle, *mut *mut i64) -> i32,
    offset: unsafe extern "C" fn(Handle, *mut i64) -> i32,
    list_size: unsafe extern "C" fn(Handle, *mut usize) -> i32,
    list_get: unsafe extern "C" fn(Handle, usize, *mut Word) -> i32,
    list_delete: unsafe extern "C" fn(Handle) -> i32,
    word_delete: unsafe extern "C" fn(*mut Word) -> i32,
    fail: unsafe extern "C-unwind" fn(*const c_char, *const c_char, u32, *const c_char) -> !,
    /// torch's own `select`, called for the exception that it throws; it takes the index by reference.
    select: Option<unsafe extern "C-unwind" fn(*mut Handle, Handle, i64, *const i64)>,
    inference: Option<Inference>,
}

/// What makes a view in inference mode: torch's alias would be an inference tensor there, also of a tensor that is none,
/// and its version counter could not be set. torch's own function makes a view of the kind of its base.
struct Inference {
    enabled: unsafe extern "C" fn() -> bool,
    fresh: unsafe extern "C" fn(*mut Handle) -> i32,
    strided: unsafe extern "C-unwind" fn(Handle, Ints, Ints, OptionalInt) -> Returned,
}

/// `c10::ArrayRef<int64_t>`.
#[repr(C)]
struct Ints {
    data: *const i64,
    len: usize,
}

/// `std::optional<int64_t>`.
#[repr(C)]
struct OptionalInt {
    value: i64,
    present: bool,
}

/// A tensor that C++ returns: in memory of ours, as what has a destructor, which this is made long enough for.
#[repr(C)]
struct Returned {
    tensor: MaybeUninit<Word>,
    _unused: MaybeUninit<[Word; 3]>,
}

/// A tensor handle that is ours, deleted also while an exception of torch passes.
struct Owned<'a>(&'a Shims, Handle);

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        // SAFETY: a live handle that is ours.
        unsafe { (self.0.delete)(self.1) };
    }
}

type Kernel = unsafe extern "C-unwind" fn(*mut Word, u64, u64);

static SHIMS: OnceLock<Shims> = OnceLock::new();

/// What torch calls version 2.10 of this interface.
const VERSION: u64 = 2 << 56 | 10 << 48;

/// Registers the kernels; false when this torch lacks a function.
pub fn register(symbol: impl Fn(&CStr) -> Option<*mut c_void>) -> bool {
    // SAFETY: the symbols have these signatures in every torch that has them.
    unsafe {
        let (Some(shims), Some(init), Some(add)) =
            (find(&symbol), symbol(c"aoti_torch_library_init_impl"), symbol(c"torch_library_impl"))
        else {
            return false;
        };
        let init: unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, u32, *mut Handle) -> i32 =
            std::mem::transmute(init);
        let add: unsafe extern "C" fn(Handle, *const c_char, Kernel, u64) -> i32 = std::mem::transmute(add);
        let _ = SHIMS.set(shims);
        let mut library = std::ptr::null_mut();
        if init(c"aten".as_ptr(), c"PrivateUse1".as_ptr(), c"torch_pjrt".as_ptr(), 0, &mut library) != 0 {
            return false;
        }
        let table: [(&CStr, Kernel); 4] =
            [(c"as_strided", as_strided), (c"view", view), (c"_unsafe_view", view), (c"_reshape_alias", reshape_alias)];
        let selects = SHIMS.get().is_some_and(|s| s.select.is_some());
        if selects && add(library, c"select.int".as_ptr(), select, VERSION) != 0 {
            return false;
        }
        // The library lives as long as the process.
        table.into_iter().all(|(name, kernel)| add(library, name.as_ptr(), kernel, VERSION) == 0)
    }
}

/// # Safety
/// The symbols have the signatures of [`Shims`].
#[expect(clippy::missing_transmute_annotations, reason = "the type of the field is the annotation")]
unsafe fn find(symbol: &impl Fn(&CStr) -> Option<*mut c_void>) -> Option<Shims> {
    // SAFETY: by the caller.
    unsafe {
        Some(Shims {
            reinterpret: std::mem::transmute::<*mut c_void, _>(symbol(c"aoti_torch__reinterpret_tensor")?),
            delete: std::mem::transmute::<*mut c_void, _>(symbol(c"aoti_torch_delete_tensor_object")?),
            dim: std::mem::transmute::<*mut c_void, _>(symbol(c"aoti_torch_get_dim")?),
            sizes: std::mem::transmute::<*mut c_void, _>(symbol(c"aoti_torch_get_sizes")?),
            strides: std::mem::transmute::<*mut c_void, _>(symbol(c"aoti_torch_get_strides")?),
            offset: std::mem::transmute::<*mut c_void, _>(symbol(c"aoti_torch_get_storage_offset")?),
            list_size: std::mem::transmute::<*mut c_void, _>(symbol(c"torch_list_size")?),
            list_get: std::mem::transmute::<*mut c_void, _>(symbol(c"torch_list_get_item")?),
            list_delete: std::mem::transmute::<*mut c_void, _>(symbol(c"torch_delete_list")?),
            word_delete: std::mem::transmute::<*mut c_void, _>(symbol(c"torch_delete_stable_ivalue")?),
            fail: std::mem::transmute::<*mut c_void, _>(symbol(c"_ZN3c106detail14torchCheckFailEPKcS2_jS2_")?),
            select: symbol(c"_ZN2at6native13select_symintERKNS_6TensorElN3c106SymIntE").map(|p| std::mem::transmute(p)),
            inference: find_inference(symbol),
        })
    }
}

/// # Safety
/// The symbols have the signatures of [`Inference`].
#[expect(clippy::missing_transmute_annotations, reason = "the type of the field is the annotation")]
unsafe fn find_inference(symbol: &impl Fn(&CStr) -> Option<*mut c_void>) -> Option<Inference> {
    let strided = c"_ZN2at6native21as_strided_tensorimplERKNS_6TensorEN3c108ArrayRefIlEES6_St8optionalIlE";
    // SAFETY: by the caller.
    unsafe {
        Some(Inference {
            enabled: std::mem::transmute::<*mut c_void, _>(symbol(c"_ZN3c1013InferenceMode10is_enabledEv")?),
            fresh: std::mem::transmute::<*mut c_void, _>(symbol(c"aoti_torch_new_uninitialized_tensor")?),
            strided: std::mem::transmute::<*mut c_void, _>(symbol(strided)?),
        })
    }
}

/// Throws a RuntimeError. `message` is leaked: nothing of ours may need dropping while the exception passes.
unsafe fn fail(shims: &Shims, message: String) -> ! {
    let text = CString::new(message).unwrap_or_default().into_raw();
    // SAFETY: C strings; the function throws.
    unsafe { (shims.fail)(c"torch_pjrt".as_ptr(), c"views".as_ptr(), 0, text) }
}

/// Takes a list of ints over.
unsafe fn ints(shims: &Shims, word: Word) -> Sizes {
    let list = word as Handle;
    let (mut n, mut out) = (0, Sizes::new());
    // SAFETY: a list handle that is ours.
    unsafe {
        (shims.list_size)(list, &mut n);
        for i in 0..n {
            let mut w = 0;
            (shims.list_get)(list, i, &mut w);
            out.push(w as i64);
        }
        (shims.list_delete)(list);
    }
    out
}

/// Sizes and strides of a tensor, borrowed.
unsafe fn geometry<'a>(shims: &Shims, tensor: Handle) -> (&'a [i64], &'a [i64]) {
    let (mut n, mut sizes, mut strides) = (0, std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: a live tensor handle; the arrays are the tensor's own.
    unsafe {
        (shims.dim)(tensor, &mut n);
        if n == 0 {
            return (&[], &[]);
        }
        (shims.sizes)(tensor, &mut sizes);
        (shims.strides)(tensor, &mut strides);
        (std::slice::from_raw_parts(sizes, n as usize), std::slice::from_raw_parts(strides, n as usize))
    }
}

/// Puts an alias of `tensor`, which is consumed, into the first word; returns whether it worked.
unsafe fn alias(shims: &Shims, stack: *mut Word, tensor: Handle, sizes: &[i64], strides: &[i64], by: i64) -> bool {
    let mut out = std::ptr::null_mut();
    // SAFETY: live handles and arrays of one length.
    unsafe {
        if let Some(own) = &shims.inference
            && (own.enabled)()
        {
            return alias_in_inference_mode(shims, own, stack, tensor, sizes, strides, by);
        }
        let ok = (shims.reinterpret)(tensor, sizes.len() as i64, sizes.as_ptr(), strides.as_ptr(), by, &mut out) == 0;
        (shims.delete)(tensor);
        *stack = out as Word;
        ok
    }
}

/// [`alias`] by torch's own function.
unsafe fn alias_in_inference_mode(
    shims: &Shims,
    own: &Inference,
    stack: *mut Word,
    tensor: Handle,
    sizes: &[i64],
    strides: &[i64],
    by: i64,
) -> bool {
    let tensor = Owned(shims, tensor);
    let list = |v: &[i64]| Ints { data: v.as_ptr(), len: v.len() };
    // SAFETY: live handles and arrays of one length. A fresh handle points to a tensor that is none, which owns
    // nothing: the view is put in its place.
    unsafe {
        let mut at = 0;
        (shims.offset)(tensor.1, &mut at);
        let view = (own.strided)(tensor.1, list(sizes), list(strides), OptionalInt { value: at + by, present: true });
        let mut out = std::ptr::null_mut();
        if (own.fresh)(&mut out) != 0 {
            return false;
        }
        *out.cast::<Word>() = view.tensor.assume_init();
        *stack = out as Word;
    }
    true
}

/// `as_strided(self, size, stride, storage_offset=None)`.
unsafe extern "C-unwind" fn as_strided(stack: *mut Word, _: u64, _: u64) {
    let Some(shims) = SHIMS.get() else { return };
    let mut why = "as_strided: torch could not make the view".to_owned();
    // SAFETY: torch hands the words of the schema over.
    let ok = unsafe {
        let tensor = *stack as Handle;
        let (sizes, strides) = (ints(shims, *stack.add(1)), ints(shims, *stack.add(2)));
        let wanted = *stack.add(3) as *mut Word;
        let (mut by, mut from) = (0, 0);
        if !wanted.is_null() {
            let mut at = 0;
            (shims.offset)(tensor, &mut at);
            from = *wanted as i64;
            by = from - at;
            (shims.word_delete)(wanted);
        }
        match super::views::impossible(&sizes, &strides, from) {
            Some(message) => {
                (shims.delete)(tensor);
                why = message;
                false
            }
            None => alias(shims, stack, tensor, &sizes, &strides, by),
        }
    };
    if !ok {
        // SAFETY: nothing is held here but the message, which is handed over.
        unsafe { fail(shims, why) }
    }
}

/// `_reshape_alias(self, size, stride)`.
unsafe extern "C-unwind" fn reshape_alias(stack: *mut Word, _: u64, _: u64) {
    let Some(shims) = SHIMS.get() else { return };
    // SAFETY: torch hands the words of the schema over.
    let ok = unsafe {
        let (sizes, strides) = (ints(shims, *stack.add(1)), ints(shims, *stack.add(2)));
        alias(shims, stack, *stack as Handle, &sizes, &strides, 0)
    };
    if !ok {
        // SAFETY: nothing is held here.
        unsafe { fail(shims, "_reshape_alias: torch could not make the view".to_owned()) }
    }
}

/// `view(self, size)` and `_unsafe_view`.
unsafe extern "C-unwind" fn view(stack: *mut Word, _: u64, _: u64) {
    let Some(shims) = SHIMS.get() else { return };
    // SAFETY: torch hands the words of the schema over.
    let error = unsafe {
        let tensor = *stack as Handle;
        let wanted = ints(shims, *stack.add(1));
        let (sizes, strides) = geometry(shims, tensor);
        match view_geometry(sizes, strides, wanted) {
            Ok((sizes, strides)) => (!alias(shims, stack, tensor, &sizes, &strides, 0))
                .then(|| "view: torch could not make the view".to_owned()),
            Err(e) => {
                (shims.delete)(tensor);
                Some(e.to_string())
            }
        }
    };
    if let Some(message) = error {
        // SAFETY: nothing is held here: the message is moved.
        unsafe { fail(shims, message) }
    }
}

/// `select(self, dim, index)`: torch would come back for `as_strided`, with lists to make and take apart.
unsafe extern "C-unwind" fn select(stack: *mut Word, _: u64, _: u64) {
    let Some(shims) = SHIMS.get() else { return };
    // SAFETY: torch hands the words of the schema over.
    unsafe {
        let (tensor, dim, index) = (*stack as Handle, *stack.add(1) as i64, *stack.add(2) as i64);
        let (sizes, strides) = geometry(shims, tensor);
        let rank = sizes.len() as i64;
        let d = (if dim < 0 { dim + rank } else { dim }) as usize;
        let valid = d < sizes.len() && (-sizes[d]..sizes[d]).contains(&index);
        if !valid {
            // Throws the exception of its kind.
            if let Some(own) = shims.select {
                let mut out = std::ptr::null_mut();
                own(&mut out, tensor, dim, &index);
            }
            fail(shims, format!("select(): index {index} is out of range in dimension {dim} of a tensor of {sizes:?}"));
        }
        let at = if index < 0 { index + sizes[d] } else { index };
        let by = at * strides[d];
        let without = |v: &[i64]| v.iter().enumerate().filter(|(i, _)| *i != d).map(|(_, n)| *n).collect::<Sizes>();
        let (sizes, strides) = (without(sizes), without(strides));
        if !alias(shims, stack, tensor, &sizes, &strides, by) {
            drop((sizes, strides));
            fail(shims, "select: torch could not make the view".to_owned());
        }
    }
}
