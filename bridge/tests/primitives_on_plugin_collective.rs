//! Collectives and sharding on several devices of the plugin, against plain Rust.

mod on_plugin;

use bridge::pjrt::{Buffer, CompileOptions};
use on_plugin::{Arr, check, device, lacks_devices, run_on};
use primitives::DType::*;
use primitives::*;

const N: i64 = 4;

fn replicas() -> CompileOptions {
    CompileOptions { num_replicas: N, ..CompileOptions::default() }
}

fn partitions() -> CompileOptions {
    CompileOptions { num_partitions: N, ..CompileOptions::default() }
}

/// A different array per device.
fn inputs(dims: &[i64]) -> Vec<Vec<Arr>> {
    (0..N).map(|n| vec![Arr::mixed(F32, dims).map(F32, |v| v + 10.0 * n as f64)]).collect()
}

fn pairs_of_replicas() -> Groups {
    Groups { groups: vec![vec![0, 1], vec![3, 2]], ..Groups::default() }
}

/// The group of a device and its place in it.
fn group_of(groups: &Groups, device: i64) -> (&Vec<i64>, i64) {
    let group = groups.groups.iter().find(|g| g.contains(&device)).unwrap();
    (group, group.iter().position(|d| *d == device).unwrap() as i64)
}

#[test]
fn all_reduce() {
    let x = inputs(&[2, 3]);
    for (groups, options) in [
        (pairs_of_replicas(), replicas()),
        (Groups::all_replicas(N), replicas()),
        (Groups::all_partitions(N), partitions()),
    ] {
        let Some(got) =
            run_on(&x, &options, |g, p| Ok(vec![g.all_reduce(p[0], &groups, |g, a| Ok(vec![g.add(a[0], a[1])?]))?]))
        else {
            return;
        };
        for device in 0..N {
            let (group, _) = group_of(&groups, device);
            let want = Arr::from_fn(F32, &[2, 3], |i| group.iter().map(|d| x[*d as usize][0].f(i)).sum::<f64>());
            check(&format!("{groups:?}"), &got[device as usize][0], &want);
        }
    }
}

#[test]
fn all_gather_reduce_scatter_all_to_all() {
    let x = inputs(&[4, 2]);
    for (groups, options) in [(pairs_of_replicas(), replicas()), (Groups::all_partitions(N), partitions())] {
        let size = groups.size();
        let Some(got) = run_on(&x, &options, |g, p| {
            Ok(vec![
                g.all_gather(p[0], 1, &groups)?,
                g.reduce_scatter(p[0], 0, &groups, |g, a| Ok(vec![g.maximum(a[0], a[1])?]))?,
                g.all_to_all(p[0], 0, 1, &groups)?,
            ])
        }) else {
            return;
        };
        for device in 0..N {
            let (group, place) = group_of(&groups, device);
            let of = |d: i64| &x[group[d as usize] as usize][0];
            let results = &got[device as usize];
            let gathered = Arr::from_fn(F32, &[4, 2 * size], |i| of(i[1] / 2).at(&[i[0], i[1] % 2]));
            check("all_gather", &results[0], &gathered);
            let part = 4 / size;
            let scattered = Arr::from_fn(F32, &[part, 2], |i| {
                (0..size).map(|d| of(d).f(&[place * part + i[0], i[1]])).fold(f64::NEG_INFINITY, f64::max)
            });
            check("reduce_scatter", &results[1], &scattered);
            let exchanged = Arr::from_fn(F32, &[part, 2 * size], |i| of(i[1] / 2).at(&[place * part + i[0], i[1] % 2]));
            check("all_to_all", &results[2], &exchanged);
        }
    }
}

#[test]
fn permutes_and_ids() {
    let x = inputs(&[3]);
    for (channel, options) in [(None, replicas()), (Some(0), partitions())] {
        let by_partition = channel.is_some();
        let Some(got) = run_on(&x, &options, |g, p| {
            let moved = g.collective_permute(p[0], &[(0, 1), (1, 2), (3, 0)], channel)?;
            // The partitioner refuses partition_id outside a manual computation.
            let id = if by_partition { g.scalar(U32, 0)? } else { g.replica_id()? };
            Ok(vec![moved, id])
        }) else {
            return;
        };
        for (device, source) in [(0, Some(3)), (1, Some(0)), (2, Some(1)), (3, None)] {
            let want = source.map_or(x[0][0].map(F32, |_| 0.0), |s: usize| x[s][0].clone());
            check("collective_permute", &got[device][0], &want);
            check("replica_id", &got[device][1], &Arr::new(U32, &[], &[if by_partition { 0 } else { device }]));
        }
    }
}

/// The partitioner cuts a program at a constraint: each device gets a block of the result.
#[test]
fn sharding_constraints() {
    let Some(client) = device() else { return };
    if lacks_devices(client, N as usize) {
        return;
    }
    let shardings = [
        ("#sdy.sharding<@mesh, [{}, {}]>", "#sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>"),
        ("{replicated}", "{devices=[2,2]<=[4]}"),
    ];
    let whole = Arr::mixed(F32, &[4, 6]);
    for (input, output) in shardings {
        let mut g = Graph::new("sharding");
        g.add_mesh("mesh", &[("x", 2), ("y", 2)]);
        g.set_partitions(N, 1);
        let x = g.parameter(whole.ty().with_sharding(input));
        let y = g.add(x, x).unwrap();
        let y = g.sharding_constraint(y, output).unwrap();
        g.set_outputs(&[y]).unwrap();
        let exe = client.compile(g.to_text(), &partitions()).unwrap();
        let buffers: Vec<Buffer> = (0..N as usize)
            .map(|n| client.buffer_from_host(&whole.bytes(), F32, &whole.dims, client.device(n).unwrap()).unwrap())
            .collect();
        let lists: Vec<[&Buffer; 1]> = buffers.iter().map(|b| [b]).collect();
        let lists: Vec<&[&Buffer]> = lists.iter().map(|l| &l[..]).collect();
        let results = exe.execute_sharded(&lists, &[], None).unwrap();
        for device in 0..N {
            let (row, column) = (device / 2, device % 2);
            let want = Arr::from_fn(F32, &[2, 3], |i| 2.0 * whole.f(&[2 * row + i[0], 3 * column + i[1]]));
            let mut bytes = vec![0; 24];
            results[device as usize][0].to_host(&mut bytes).unwrap();
            assert_eq!(bytes, want.bytes(), "{output} on device {device}");
        }
    }
}

/// Each device works on its block and the blocks are put together again.
#[test]
fn manual_computations() {
    let whole = Arr::mixed(F32, &[4, 6]);
    // The partitioner hands out the parameter in the blocks that the computation asks for.
    let block = |device: i64, i: &[i64]| whole.at(&[2 * (device / 2) + i[0], 3 * (device % 2) + i[1]]);
    let x: Vec<Vec<Arr>> = (0..N).map(|n| vec![Arr::from_fn(F32, &[2, 3], |i| block(n, i))]).collect();
    let Some(client) = device() else { return };
    if lacks_devices(client, N as usize) {
        return;
    }
    let mut g = Graph::new("manual");
    g.add_mesh("mesh", &[("x", 2), ("y", 2)]);
    g.set_partitions(N, 1);
    let p = g.parameter(whole.ty().with_sharding("#sdy.sharding<@mesh, [{\"x\"}, {\"y\"}]>"));
    let splits: &[Split<'_>] = &[&[&["x"], &["y"]]];
    let manual = Manual { mesh: "mesh", operands: splits, results: &[&[&["x"], &[]], &[&["x", "y"]]] };
    let rows = Groups { groups: vec![vec![0, 1], vec![2, 3]], channel: Some(0), global_ids: true };
    let outputs = g
        .manual_computation(&[p], manual, |g, a| {
            let sum = g.all_reduce(a[0], &rows, |g, a| Ok(vec![g.add(a[0], a[1])?]))?;
            let id = g.partition_id()?;
            Ok(vec![sum, g.reshape(id, &[1])?])
        })
        .unwrap();
    g.set_outputs(&outputs).unwrap();
    assert_eq!((&g.dims(outputs[0])[..], &g.dims(outputs[1])[..]), (&[4, 3][..], &[4][..]));
    let exe = client.compile(g.to_text(), &partitions()).unwrap();
    let buffers: Vec<Buffer> = x
        .iter()
        .enumerate()
        .map(|(n, x)| client.buffer_from_host(&x[0].bytes(), F32, &[2, 3], client.device(n).unwrap()).unwrap())
        .collect();
    let lists: Vec<[&Buffer; 1]> = buffers.iter().map(|b| [b]).collect();
    let lists: Vec<&[&Buffer]> = lists.iter().map(|l| &l[..]).collect();
    let results = exe.execute_sharded(&lists, &[], None).unwrap();
    for device in 0..N {
        let row = 2 * (device / 2);
        let sum = Arr::from_fn(F32, &[2, 3], |i| x[row as usize][0].f(i) + x[row as usize + 1][0].f(i));
        let mut bytes = vec![0; 24];
        results[device as usize][0].to_host(&mut bytes).unwrap();
        assert_eq!(bytes, sum.bytes(), "sum on device {device}");
        let mut id = vec![0; 4];
        results[device as usize][1].to_host(&mut id).unwrap();
        assert_eq!(id, (device as u32).to_le_bytes(), "id of device {device}");
    }
}
