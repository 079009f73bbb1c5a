//! Properties of the type rules, over random shapes.

mod common;

use common::ty;
use primitives::DType::*;
use primitives::*;
use proptest::collection::vec;
use proptest::prelude::*;

fn dims(rank: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<i64>> {
    vec(0i64..6, rank)
}

fn param(g: &mut Graph, dims: &[i64]) -> primitives::Value {
    g.parameter(ty(F32, dims))
}

/// NumPy's rule, written the other way round: walk from the last dimension, missing ones are 1.
fn broadcasts(from: &[i64], to: &[i64]) -> bool {
    from.len() <= to.len() && from.iter().rev().zip(to.iter().rev()).all(|(f, t)| f == t || *f == 1)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn elementwise_needs_equal_types(a in dims(0..=3), b in dims(0..=3)) {
        let mut g = Graph::new("p");
        let (x, y) = (param(&mut g, &a), param(&mut g, &b));
        let r = g.add(x, y);
        prop_assert_eq!(r.is_ok(), a == b);
        if let Ok(z) = r {
            prop_assert_eq!(&g.dims(z)[..], &a[..]);
        }
    }

    #[test]
    fn broadcast_to_follows_numpy(a in dims(0..=3), b in dims(0..=4)) {
        let mut g = Graph::new("p");
        let x = param(&mut g, &a);
        let r = g.broadcast_to(x, &b);
        prop_assert_eq!(r.is_ok(), broadcasts(&a, &b));
        if let Ok(z) = r {
            prop_assert_eq!(&g.dims(z)[..], &b[..]);
        }
    }

    #[test]
    fn broadcasting_to_itself_repeated_always_works(a in dims(0..=4), ones in vec(any::<bool>(), 4)) {
        let from: Vec<i64> = a.iter().zip(ones).map(|(d, one)| if one { 1 } else { *d }).collect();
        let mut g = Graph::new("p");
        let x = param(&mut g, &from);
        let z = g.broadcast_to(x, &a).unwrap();
        prop_assert_eq!(&g.dims(z)[..], &a[..]);
    }

    #[test]
    fn reshape_keeps_the_number_of_elements(a in dims(0..=4), b in dims(0..=4)) {
        let mut g = Graph::new("p");
        let x = param(&mut g, &a);
        let same = a.iter().product::<i64>() == b.iter().product::<i64>();
        prop_assert_eq!(g.reshape(x, &b).is_ok(), same);
    }

    #[test]
    fn transpose_permutes_and_its_inverse_undoes_it(a in dims(0..=5), seed in any::<u64>()) {
        let mut permutation: Vec<usize> = (0..a.len()).collect();
        let mut s = seed;
        for i in (1..a.len()).rev() {
            s = s.wrapping_mul(6364136223846793005).wrapping_add(1);
            permutation.swap(i, (s >> 33) as usize % (i + 1));
        }
        let mut inverse = vec![0; a.len()];
        for (i, p) in permutation.iter().enumerate() {
            inverse[*p] = i;
        }
        let mut g = Graph::new("p");
        let x = param(&mut g, &a);
        let t = g.transpose(x, &permutation).unwrap();
        let want: Vec<i64> = permutation.iter().map(|p| a[*p]).collect();
        prop_assert_eq!(&g.dims(t)[..], &want[..]);
        prop_assert_eq!(g.transpose(t, &inverse).unwrap(), x);
    }

    #[test]
    fn slice_counts_the_elements_it_visits(n in 0i64..12, start in -2i64..14, limit in -2i64..14, stride in -1i64..5) {
        let mut g = Graph::new("p");
        let x = param(&mut g, &[n]);
        let valid = 0 <= start && start <= limit && limit <= n && stride >= 1;
        let r = g.slice(x, &[start], &[limit], &[stride]);
        prop_assert_eq!(r.is_ok(), valid);
        if let Ok(z) = r {
            prop_assert_eq!(g.dims(z)[0] as usize, (start..limit).step_by(stride as usize).count());
        }
    }

    #[test]
    fn pad_counts_the_places_it_makes(n in 0i64..6, low in -4i64..4, high in -4i64..4, interior in 0i64..3) {
        let mut g = Graph::new("p");
        let x = param(&mut g, &[n]);
        let v = g.scalar(F32, 0).unwrap();
        let spread = if n == 0 { 0 } else { n + (n - 1) * interior };
        let r = g.pad(x, v, &[low], &[high], &[interior]);
        prop_assert_eq!(r.is_ok(), low + spread + high >= 0);
        if let Ok(z) = r {
            prop_assert_eq!(g.dims(z)[0], low + spread + high);
        }
    }

    #[test]
    fn concatenate_adds_one_dimension(a in dims(1..=3), b in 0i64..5, dim in 0usize..4) {
        let mut g = Graph::new("p");
        let x = param(&mut g, &a);
        let mut other = a.clone();
        if dim < a.len() {
            other[dim] = b;
        }
        let y = param(&mut g, &other);
        let r = g.concatenate(&[x, y, x], dim);
        prop_assert_eq!(r.is_ok(), dim < a.len());
        if let Ok(z) = r {
            let mut want = a.clone();
            want[dim] = 2 * a[dim] + b;
            prop_assert_eq!(&g.dims(z)[..], &want[..]);
        }
    }

    #[test]
    fn reduce_drops_its_dimensions(a in dims(0..=4), picked in vec(0usize..5, 0..=4)) {
        let mut g = Graph::new("p");
        let x = param(&mut g, &a);
        let mut unique = picked.clone();
        unique.sort_unstable();
        unique.dedup();
        let valid = unique.len() == picked.len() && picked.iter().all(|d| *d < a.len());
        let r = g.reduce_sum(x, &picked);
        prop_assert_eq!(r.is_ok(), valid || picked.is_empty());
        if let Ok(z) = r {
            let want: Vec<i64> = (0..a.len()).filter(|d| !picked.contains(d)).map(|d| a[d]).collect();
            prop_assert_eq!(&g.dims(z)[..], &want[..]);
        }
    }

    #[test]
    fn dot_general_orders_batch_left_right(
        batch in vec(0i64..4, 0..=2), contract in vec(0i64..4, 0..=2), left in vec(0i64..4, 0..=2), right in vec(0i64..4, 0..=2),
        wrong in any::<bool>(),
    ) {
        // lhs is [contract, batch, left], rhs is [right, batch, contract].
        let lhs = [&contract[..], &batch, &left].concat();
        let mut rhs = [&right[..], &batch, &contract].concat();
        let (c, b, r) = (contract.len(), batch.len(), right.len());
        let dims = DotDims {
            lhs_batch: (c..c + b).collect(),
            rhs_batch: (r..r + b).collect(),
            lhs_contract: (0..c).collect(),
            rhs_contract: (r + b..r + b + c).collect(),
        };
        let spoil = wrong && b + c > 0;
        if spoil {
            rhs[r] += 1;
        }
        let mut g = Graph::new("p");
        let (x, y) = (param(&mut g, &lhs), param(&mut g, &rhs));
        let z = g.dot_general(x, y, &dims, Precision::Default, None);
        prop_assert_eq!(z.is_ok(), !spoil);
        if let Ok(z) = z {
            let want = [&batch[..], &left, &right].concat();
            prop_assert_eq!(&g.dims(z)[..], &want[..]);
        }
    }

    #[test]
    fn convolution_counts_the_places_of_the_kernel(
        size in 0i64..8, kernel in 1i64..4, stride in 1i64..4, low in -1i64..3, high in -1i64..3,
        lhs_dilation in 1i64..3, rhs_dilation in 1i64..3,
    ) {
        let mut g = Graph::new("p");
        let (x, k) = (param(&mut g, &[2, 3, size]), param(&mut g, &[4, 3, kernel]));
        let w = ConvWindow {
            strides: vec![stride],
            padding: vec![(low, high)],
            lhs_dilation: vec![lhs_dilation],
            rhs_dilation: vec![rhs_dilation],
            ..ConvWindow::default()
        };
        let z = g.convolution(x, k, &ConvDims::channels_first(1), &w, 1, 1, Precision::Default).unwrap();
        // Every start at which the kernel's last tap is still inside the padded input.
        let spread = if size == 0 { 0 } else { (size - 1) * lhs_dilation + 1 };
        let last = (kernel - 1) * rhs_dilation;
        let places = (0..64).map(|i| i * stride).filter(|start| start + last < low + spread + high).count();
        prop_assert_eq!(&g.dims(z)[..], &[2, 4, places as i64][..]);
    }

    #[test]
    fn windows_count_as_convolutions_do(size in 1i64..8, window in 1i64..4, stride in 1i64..4, low in 0i64..3, high in 0i64..3) {
        let mut g = Graph::new("p");
        let x = param(&mut g, &[size]);
        let zero = g.scalar(F32, 0).unwrap();
        let w = Window { strides: vec![stride], padding: vec![(low, high)], ..Window::new(&[window]) };
        let z = g.reduce_window(&[x], &[zero], &w, |g, a| Ok(vec![g.add(a[0], a[1])?])).unwrap()[0];
        let places = (0..32).map(|i| i * stride).filter(|s| s + window <= low + size + high).count();
        prop_assert_eq!(g.dims(z)[0] as usize, places);
    }

    #[test]
    fn gather_of_rows_has_the_indices_shape_then_the_row(rows in 1i64..5, row in dims(0..=2), index in dims(0..=3)) {
        let mut g = Graph::new("p");
        let table = [&[rows][..], &row].concat();
        let x = param(&mut g, &table);
        let i = g.parameter(ty(I64, &index));
        let dims = GatherDims {
            offset_dims: (index.len()..index.len() + row.len()).collect(),
            collapsed_slice_dims: vec![0],
            start_index_map: vec![0],
            index_vector_dim: index.len(),
            ..GatherDims::default()
        };
        let sizes = [&[1][..], &row].concat();
        let z = g.gather(x, i, &dims, &sizes, false).unwrap();
        let want = [&index[..], &row].concat();
        prop_assert_eq!(&g.dims(z)[..], &want[..]);
        // The opposite: these rows can be added back.
        let back = ScatterDims {
            update_window_dims: dims.offset_dims.clone(),
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: index.len(),
            ..ScatterDims::default()
        };
        let s = g.scatter(&[x], i, &[z], &back, false, false, |g, a| Ok(vec![g.add(a[0], a[1])?])).unwrap()[0];
        prop_assert_eq!(&g.dims(s)[..], &table[..]);
    }

    #[test]
    fn bitcasts_round_trip(dims in dims(0..=3), from in 0usize..6, to in 0usize..6) {
        let types = [U8, I16, F16, F32, I64, F64];
        let mut g = Graph::new("p");
        let x = g.parameter(ty(types[from], &dims));
        let bytes = g.ty(x).size_bytes();
        if let Ok(y) = g.bitcast_convert(x, types[to]) {
            prop_assert_eq!(g.ty(y).size_bytes(), bytes);
            let back = g.bitcast_convert(y, types[from]).unwrap();
            prop_assert_eq!(g.ty(back), &ty(types[from], &dims));
        } else {
            prop_assert!(types[to].size_of() > types[from].size_of());
        }
    }

    #[test]
    fn numbers_keep_their_value_in_the_text(bits in any::<u32>()) {
        let x = f32::from_bits(bits);
        let mut g = Graph::new("p");
        let c = g.scalar(F32, x).unwrap();
        g.set_outputs(&[c]).unwrap();
        let text = g.to_text();
        let literal = text.split("dense<").nth(1).unwrap().split('>').next().unwrap();
        let back = match literal.strip_prefix("0x") {
            Some(hex) => f32::from_bits(u32::from_str_radix(hex, 16).unwrap()),
            None => literal.parse::<f64>().unwrap() as f32,
        };
        prop_assert!(back.to_bits() == bits || (back.is_nan() && x.is_nan()), "{} became {}", x, literal);
        prop_assert!(literal.starts_with("0x") || literal.contains('.'), "{} is not a float in MLIR", literal);
    }
}
