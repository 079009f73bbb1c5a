//! The client of the process. Alone in its binary, because it is made once and reads the environment.

mod common;

use bridge::pjrt::{self, NamedValue, set_client_options, set_search_roots};
use common::{library, roots};

#[test]
fn one_client_made_on_first_use() {
    if library("lammps_jax_pjrt_cpu").is_none() {
        return;
    }
    // SAFETY: the only test of this binary, before any other thread looks at the environment.
    unsafe {
        std::env::remove_var("TORCH_PJRT_PLUGIN");
        std::env::set_var("PJRT_DEVICE", "NPU");
    }
    set_search_roots(roots());
    assert!(pjrt::existing_client().is_none());
    let error = pjrt::client().unwrap_err().to_string();
    assert!(
        error.starts_with("PJRT_DEVICE=NPU matches no installed PJRT plugin: got NPU, expected one of "),
        "{error}"
    );

    // SAFETY: as above.
    unsafe { std::env::set_var("PJRT_DEVICE", "CPU") };
    set_client_options(vec![("cpu_device_count".to_owned(), NamedValue::Int(2))]).unwrap();
    let client = pjrt::client().unwrap();
    assert_eq!(client.platform_name(), "cpu");
    assert!(client.plugin().path().ends_with("lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so"));
    assert_eq!(client.num_addressable(), 2);
    let others: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> =
            (0..4).map(|_| scope.spawn(|| std::ptr::from_ref(pjrt::client().unwrap()) as usize)).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(others.iter().all(|other| *other == std::ptr::from_ref(client) as usize));
    assert_eq!(
        set_client_options(Vec::new()).unwrap_err().to_string(),
        "set_client_options: argument `options`: got a call after the first use of the device, expected a call before \
         it, because the client is made once"
    );
}
