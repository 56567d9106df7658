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

extern "C" __global__ void __launch_bounds__(256) dl_map_2(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(i64) p2, DL_GLOBAL(f64) p3, DL_GLOBAL(f64) p4) {
  // map
  if (dl_failed(run, site, 0)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index j5 = t * 2;
    const i32 n6 = dl_left(v1 - j5);
    i64 a7[2];
    dl_load(a7, p2, j5, n6);
    #pragma unroll
    for (i32 k = 0; k < 2; ++k) if (k < n6) {
      const dl_index v8 = j5 + k;
      const i64 v9 = a7[k];
      const f64 v10 = p3[v9];
      const f64 v11 = v10 + v10;
      dl_atomic_sum(DL_AT(p4, v9), v11);
    }
  }
}
