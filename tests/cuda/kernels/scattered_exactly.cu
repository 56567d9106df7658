extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, DL_GLOBAL(i64) p1, i64 v2) {
  // map
  if (dl_failed(run, site, 1)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index v3 = t;
    const i64 v4 = p1[v3];
    const bool v5 = v4 < v2;
    const bool v6 = v4 >= 0ll;
    const bool v7 = v6 && v5;
    if (!v7) {
      const i64 w8[] = {dl_word(v4), dl_word(v2)};
      dl_fail(run, t, site + 0, 2, w8);
      return;
    }
    const i64 v9 = v4;
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_1(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f64) p2) {
  // map
  if (dl_failed(run, site, 0)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j3 = t * 2;
    const i32 n4 = dl_left(v1 - j3);
    f64 a5[2];
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) {
      const dl_index v6 = j3 + k;
      a5[k] = 0.0;
    }
    dl_store(p2, j3, a5, n4);
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_2(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f64) p2, DL_GLOBAL(f64) p3) {
  // map
  if (dl_failed(run, site, 0)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j4 = t * 2;
    const i32 n5 = dl_left(v1 - j4);
    f64 a6[2];
    f64 a7[2];
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) {
      const dl_index v8 = j4 + k;
      a6[k] = (-dl_infinity_f64());
      a7[k] = (-dl_infinity_f64());
    }
    dl_store(p2, j4, a6, n5);
    dl_store(p3, j4, a7, n5);
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_3(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(i64) p2, DL_GLOBAL(f64) p3, DL_GLOBAL(f64) p4, DL_GLOBAL(f64) p5) {
  // map
  if (dl_failed(run, site, 0)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j6 = t * 2;
    const i32 n7 = dl_left(v1 - j6);
    i64 a8[2];
    dl_load(a8, p2, j6, n7);
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) if (k < n7) {
      const dl_index v9 = j6 + k;
      const i64 v10 = a8[k];
      const f64 v11 = p3[v10];
      const f64 v12 = v11 + v11;
      const f64 v13 = -v12;
      dl_atomic_max(DL_AT(p4, v10), v12);
      dl_atomic_max(DL_AT(p5, v10), v13);
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_4(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(u64) p2, DL_GLOBAL(u64) p3, DL_GLOBAL(i64) p4) {
  // map
  if (dl_failed(run, site, 0)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j5 = t * 2;
    const i32 n6 = dl_left(v1 - j5);
    u64 a7[2];
    u64 a8[2];
    i64 a9[2];
    dl_load(a7, p2, j5, n6);
    dl_load(a8, p3, j5, n6);
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) {
      const dl_index v10 = j5 + k;
      const u64 v11 = a7[k];
      const u64 v12 = a8[k];
      const u64 v13 = u64(v11 & 9223372036854775807ull);
      const u64 v14 = u64(v12 & 9223372036854775807ull);
      const u64 v15 = dl_maximum(v13, v14);
      const u64 v16 = dl_shift_right(v15, 52ull);
      const u64 v17 = dl_minimum(v16, 2045ull);
      const u64 v18 = dl_maximum(v17, 23ull);
      const u64 v19 = dl_sub(2046ull, v18);
      const u64 v20 = dl_shift_left(v19, 52ull);
      const bool v21 = v11 == 9218868437227405312ull;
      const bool v22 = v12 == 9218868437227405312ull;
      const bool v23 = v11 == 18442240474082181120ull;
      const bool v24 = v12 == 18442240474082181120ull;
      const bool v25 = v13 > 9218868437227405312ull;
      const bool v26 = v14 > 9218868437227405312ull;
      const bool v27 = v25 || v26;
      const bool v28 = v21 && v22;
      const bool v29 = v27 || v28;
      const bool v30 = v23 && v24;
      const u64 v31 = v22 ? 18442240474082181120ull : v20;
      const u64 v32 = v21 ? 9218868437227405312ull : v31;
      const u64 v33 = v29 ? 9221120237041090560ull : v32;
      const u64 v34 = v30 ? 0ull : v33;
      a7[k] = v34;
      a8[k] = 0ull;
      a9[k] = 0ll;
    }
    dl_store(p2, j5, a7, n6);
    dl_store(p3, j5, a8, n6);
    dl_store(p4, j5, a9, n6);
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_5(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(i64) p2, DL_GLOBAL(f64) p3, DL_GLOBAL(f64) p4, DL_GLOBAL(i64) p5, DL_GLOBAL(i64) p6) {
  // map
  if (dl_failed(run, site, 0)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j7 = t * 2;
    const i32 n8 = dl_left(v1 - j7);
    i64 a9[2];
    dl_load(a9, p2, j7, n8);
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) if (k < n8) {
      const dl_index v10 = j7 + k;
      const i64 v11 = a9[k];
      const f64 v12 = p3[v11];
      const f64 v13 = v12 + v12;
      const f64 v14 = p4[v11];
      const f64 v15 = v13 * v14;
      const f64 v16 = v15 * 134217728.0;
      const f64 v17 = rint(v16);
      const i64 v18 = dl_integer<i64>(v17);
      const f64 v19 = v16 - v17;
      const f64 v20 = v19 * 268435456.0;
      const f64 v21 = rint(v20);
      const i64 v22 = dl_integer<i64>(v21);
      const f64 v23 = v20 - v21;
      dl_atomic_sum(DL_AT(p5, v11), v18);
      dl_atomic_sum(DL_AT(p6, v11), v22);
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_6(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f64) p2, DL_GLOBAL(i64) p3, DL_GLOBAL(i64) p4, DL_GLOBAL(f64) p5) {
  // map
  if (dl_failed(run, site, 0)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j6 = t * 2;
    const i32 n7 = dl_left(v1 - j6);
    f64 a8[2];
    f64 a9[2];
    dl_load(a8, p2, j6, n7);
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) if (k < n7) {
      const dl_index v10 = j6 + k;
      const f64 v11 = a8[k];
      const i64 v12 = DL_PERHAPS(p3, v10);
      const f64 v13 = f64(v12);
      const f64 v14 = 0.0 + v13;
      const f64 v15 = v14 * 3.725290298461914e-09;
      const i64 v16 = DL_PERHAPS(p4, v10);
      const f64 v17 = f64(v16);
      const f64 v18 = v15 + v17;
      const f64 v19 = v18 * 7.450580596923828e-09;
      const f64 v20 = 1.0 / v11;
      const f64 v21 = v19 * v20;
      const bool v22 = fabs(v11) < dl_infinity_f64();
      const f64 v23 = v22 ? v21 : v11;
      const f64 v24 = DL_PERHAPS(p5, v10);
      const f64 v25 = v24 + v23;
      const bool v26 = v11 != 0.0;
      const f64 v27 = v26 ? v25 : v24;
      a9[k] = v27;
    }
    dl_store(p5, j6, a9, n7);
  }
}
