//! Running programs on both CPU plugins.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bridge::pjrt::{Buffer, Client, CompileOptions, ElementType, Executable, HostView, OptionValue};
use common::{add, bytes, cpu_clients, download, upload};

fn compile(client: &'static Client, text: &str) -> Executable {
    client.compile(text, &CompileOptions::default()).unwrap()
}

#[test]
fn a_program_runs() {
    for client in cpu_clients() {
        let program = compile(client, &add(""));
        assert_eq!(program.num_outputs(), 1);
        assert_eq!(program.output_types()[0].element_type, ElementType::F32);
        assert_eq!(program.output_types()[0].dims.as_slice(), [4]);
        assert_eq!(program.compiled().name().unwrap(), "add");
        let (a, b) = (upload(client, &[1., 2., 3., 4.]), upload(client, &[10., 20., 30., 40.]));
        let outputs = program.execute(&[&a, &b]).unwrap();
        assert_eq!(download(&outputs[0]), [11., 22., 33., 44.]);
        assert!(outputs[0].is_ready().unwrap());
        assert_eq!(outputs[0].size_bytes().unwrap(), 16);
        assert_eq!(outputs[0].device().unwrap().id, client.device(0).unwrap().id);
    }
}

#[test]
fn the_hot_door_takes_and_gives_raw_buffers() {
    for client in cpu_clients() {
        let program = compile(client, &add(""));
        let a = upload(client, &[1.; 4]);
        let mut outputs = [std::ptr::null_mut()];
        // SAFETY: the inputs live and have the program's types; both outputs are taken over.
        let (plain, evented) = unsafe {
            program.launch(&[a.raw(), a.raw()], &[], &mut outputs).unwrap();
            let plain = Buffer::from_raw(client, outputs[0]);
            let event = program.launch_with_event(&[a.raw(), a.raw()], &[], &mut outputs).unwrap();
            if let Some(event) = event {
                event.wait().unwrap();
                assert!(event.is_ready().unwrap());
                event.error().unwrap();
            }
            (plain, Buffer::from_raw(client, outputs[0]))
        };
        assert_eq!(download(&plain), [2.; 4]);
        assert_eq!(download(&evented), [2.; 4]);
    }
}

#[test]
fn every_element_type_makes_the_round_trip() {
    use primitives::DType;
    for client in cpu_clients() {
        let device = client.device(0).unwrap();
        for dtype in DType::ALL {
            let data: Vec<u8> =
                (0..6 * dtype.size_of()).map(|i| if dtype.is_bool() { i as u8 % 2 } else { i as u8 }).collect();
            let buffer = client.buffer_from_host(&data, dtype, &[2, 3], device).unwrap();
            assert_eq!(buffer.element_type().unwrap().dtype(), Some(dtype));
            assert_eq!(buffer.dims().unwrap().as_slice(), [2, 3]);
            let mut out = vec![0; data.len()];
            buffer.to_host(&mut out).unwrap();
            assert_eq!(out, data, "{dtype:?}");
        }
        let empty = client.buffer_from_host(&[], DType::F32, &[0, 3], device).unwrap();
        empty.to_host(&mut []).unwrap();
        let scalar = client.buffer_from_host(&2.5f32.to_le_bytes(), DType::F32, &[], device).unwrap();
        assert_eq!(download(&scalar), [2.5]);
    }
}

#[test]
fn donation_reuses_and_deletes_the_input() {
    for client in cpu_clients() {
        let program = compile(client, &add("{tf.aliasing_output = 0 : i32}"));
        let (a, b) = (upload(client, &[1.; 4]), upload(client, &[2.; 4]));
        let address = a.host_ptr().unwrap();
        let mut outputs = [std::ptr::null_mut()];
        // SAFETY: the inputs live and have the program's types; the output is taken over.
        let kept = unsafe {
            program.launch(&[a.raw(), b.raw()], &[0], &mut outputs).unwrap();
            Buffer::from_raw(client, outputs[0])
        };
        assert!(!a.is_deleted().unwrap(), "a non-donatable input is kept");
        assert_eq!(download(&kept), [3.; 4]);

        let sum = program.execute(&[&a, &b]).unwrap().remove(0);
        assert!(a.is_deleted().unwrap());
        assert_eq!(sum.host_ptr().unwrap(), address);
        assert_eq!(download(&sum), [3.; 4]);
        assert!(a.to_host(&mut [0; 16]).is_err(), "a donated buffer cannot be read");
        assert!(program.execute(&[&a, &b]).is_err(), "nor used");
        assert!(program.execute(&[&sum, &sum]).is_err(), "nor be another input of the same launch");
    }
}

#[test]
fn lent_memory_is_used_in_place_and_given_back() {
    struct Owner(#[expect(dead_code, reason = "kept only to be dropped")] Box<Aligned>, Arc<AtomicBool>);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.1.store(true, Ordering::SeqCst);
        }
    }
    #[repr(align(64))]
    struct Aligned([f32; 4]);

    for client in cpu_clients() {
        let device = client.device(0).unwrap();
        let program = compile(client, &add(""));
        for by_view in [false, true] {
            let dropped = Arc::new(AtomicBool::new(false));
            let memory = Box::new(Aligned([1., 2., 3., 4.]));
            let data = memory.0.as_ptr();
            let owner = Box::new(Owner(memory, dropped.clone()));
            // SAFETY: the owner holds the memory, which nobody changes.
            let buffer = unsafe {
                if by_view {
                    client.view_of_device_memory(owner, data.cast_mut().cast(), ElementType::F32, &[4], device)
                } else {
                    client.buffer_from_host_zero_copy(owner, data.cast(), 16, ElementType::F32, &[4], device)
                }
            }
            .unwrap();
            assert_eq!(buffer.host_ptr().unwrap(), Some(data.cast()), "no copy");
            let sum = program.execute(&[&buffer, &buffer]).unwrap();
            assert_eq!(download(&sum[0]), [2., 4., 6., 8.]);
            assert!(!dropped.load(Ordering::SeqCst), "the owner lives while the buffer does");
            drop(buffer);
            assert!(dropped.load(Ordering::SeqCst), "and is dropped with it");
        }
    }
}

#[test]
fn a_host_view_keeps_the_memory() {
    for client in cpu_clients() {
        let program = compile(client, &add("{tf.aliasing_output = 0 : i32}"));
        let a = Arc::new(upload(client, &[1., 2., 3., 4.]));
        let view = HostView::new(a.clone()).unwrap().unwrap();
        assert_eq!(view.bytes(), bytes(&[1., 2., 3., 4.]));
        let sum = program.execute(&[&a, &upload(client, &[5.; 4])]).unwrap().remove(0);
        assert_eq!(download(&sum), [6., 7., 8., 9.]);
        assert!(!a.is_deleted().unwrap(), "a lent buffer is not donated but copied");
        assert_eq!(view.bytes(), bytes(&[1., 2., 3., 4.]));
        drop(view);
        program.execute(&[&a, &upload(client, &[5.; 4])]).unwrap();
        assert!(a.is_deleted().unwrap(), "once given back it is");
    }
}

#[test]
fn deleting_frees_now_and_copies_stand_alone() {
    for client in cpu_clients() {
        let other = client.device(1).unwrap();
        let a = upload(client, &[1., 2., 3., 4.]);
        let there = a.copy_to_device(other).unwrap();
        let pinned = other.memories.iter().find(|memory| memory.kind == "pinned_host").unwrap();
        let pinned = there.copy_to_memory(pinned).unwrap();
        a.delete().unwrap();
        assert!(a.is_deleted().unwrap());
        assert_eq!(there.device().unwrap().id, other.id);
        assert_eq!(download(&there), [1., 2., 3., 4.]);
        assert_eq!(download(&pinned), [1., 2., 3., 4.]);
    }
}

#[test]
fn executables_are_stored_and_loaded() {
    for client in cpu_clients() {
        let stored = compile(client, &add("")).serialize().unwrap();
        let program = client.deserialize(&stored, None).unwrap();
        assert_eq!(program.output_types()[0].dims.as_slice(), [4]);
        let a = upload(client, &[1.; 4]);
        assert_eq!(download(&program.execute(&[&a, &a]).unwrap()[0]), [2.; 4]);
        assert!(client.deserialize(b"damaged", None).is_err());
        assert!(client.deserialize(&stored[..stored.len() / 2], None).is_err());
    }
}

#[test]
fn analyses() {
    for client in cpu_clients() {
        let program = compile(client, &add(""));
        let memory = program.memory_analysis().unwrap();
        assert_eq!((memory.arguments, memory.outputs, memory.aliased), (32, 16, 0));
        let donating = compile(client, &add("{tf.aliasing_output = 0 : i32}"));
        assert_eq!(donating.memory_analysis().unwrap().aliased, 16);
        // One of the plugins has a count of its own; for the other the program is counted here.
        assert_eq!(program.cost_analysis().unwrap()["flops"], 4.);
        let (format, code) = program.optimized_program().unwrap();
        assert_eq!(format, "hlo_with_config");
        assert!(!code.is_empty());
        let text = program.optimized_text().unwrap();
        assert!(text.starts_with("HloModule add, "), "{text}");
        let (_, entry) = text.split_once("\nENTRY %").unwrap();
        assert_eq!(entry.matches("= f32[4]{0} parameter(").count(), 2, "{text}");
    }
}

#[test]
fn replicas_exchange_data() {
    let text = "module @sum { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = \"stablehlo.all_reduce\"(%a) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32> } }";
    for client in cpu_clients() {
        let options = CompileOptions { num_replicas: 2, device_ids: vec![0, 1], ..Default::default() };
        let program = client.compile(text, &options).unwrap();
        assert_eq!(program.num_devices(), 2);
        let device = client.device(1).unwrap();
        let a = upload(client, &[1., 2., 3., 4.]);
        let b = client.buffer_from_host(&bytes(&[10.; 4]), ElementType::F32, &[4], device).unwrap();
        let outputs = program.execute_sharded(&[&[&a], &[&b]], &[], None).unwrap();
        assert_eq!(download(&outputs[0][0]), [11., 12., 13., 14.]);
        assert_eq!(download(&outputs[1][0]), [11., 12., 13., 14.]);
        let error = program.execute(&[&a]).unwrap_err();
        let expected = "execute: argument `inputs`: got lists of [1] buffers, expected 2 lists of one length";
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_program_is_placed_on_a_device() {
    for client in cpu_clients() {
        let device = client.device(1).unwrap();
        let a = client.buffer_from_host(&bytes(&[1.; 4]), ElementType::F32, &[4], device).unwrap();
        let placed = CompileOptions { device_ids: vec![i64::from(device.id)], ..Default::default() };
        let outputs = client.compile(add(""), &placed).unwrap().execute(&[&a, &a]).unwrap();
        assert_eq!(outputs[0].device().unwrap().id, device.id);
        let portable = CompileOptions { portable: true, ..Default::default() };
        let portable = client.compile(add(""), &portable).unwrap();
        let outputs = portable.execute_sharded(&[&[&a, &a]], &[], Some(device)).unwrap();
        assert_eq!(outputs[0][0].device().unwrap().id, device.id);
        assert_eq!(download(&outputs[0][0]), [2.; 4]);
    }
}

#[test]
fn debug_options_reach_the_compiler() {
    for client in cpu_clients() {
        let known = CompileOptions::default().with("xla_backend_optimization_level", OptionValue::Int(0));
        client.compile(add(""), &known).unwrap();
        let unknown = CompileOptions::default().with("xla_no_such_option", OptionValue::Bool(true));
        let error = client.compile(add(""), &unknown).err().unwrap().to_string();
        assert!(error.contains("No such compile option: 'xla_no_such_option'"), "{error}");
    }
}

#[test]
fn threads_launch_at_once() {
    for client in cpu_clients() {
        let program = compile(client, &add(""));
        let one = upload(client, &[1.; 4]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut sum = upload(client, &[0.; 4]);
                    for _ in 0..500 {
                        sum = program.execute(&[&sum, &one]).unwrap().remove(0);
                    }
                    assert_eq!(download(&sum), [500.; 4]);
                });
            }
        });
    }
}

#[test]
fn devices_and_memories_are_described() {
    for client in cpu_clients() {
        assert_eq!(client.platform_name(), "cpu");
        assert!(!client.platform_version().is_empty());
        assert_eq!((client.num_addressable(), client.process_index()), (2, 0));
        for (at, device) in client.addressable_devices().enumerate() {
            assert_eq!((device.id, device.local_hardware_id), (at as i32, at as i32));
            assert!(device.addressable);
            assert_eq!(device.kind, "cpu");
            let kinds: Vec<_> = device.memories.iter().map(|memory| memory.kind.as_str()).collect();
            assert_eq!(kinds, ["device", "pinned_host", "unpinned_host"]);
        }
        assert!(client.plugin().attributes().unwrap().iter().any(|(name, _)| name == "stablehlo_current_version"));
        assert_ne!(client.plugin().hash(), 0);
    }
}
