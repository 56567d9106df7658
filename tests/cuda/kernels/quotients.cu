extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, bool v1, dl_index v2, dl_index v3, dl_index v4, bool v5, DL_GLOBAL(f64) p6, DL_GLOBAL(f64) p7) {
  // map
  if (dl_failed(run, site, 3)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index v8 = t;
    if (!v1) {
      dl_fail(run, t, site + 0, 0, nullptr);
      return;
    }
    const dl_index v9 = v2;
    const dl_index v10 = dl_floordiv(v8, v9);
    const bool v11 = i64(v10) < i64(v3);
    if (!v11) {
      const i64 w12[] = {dl_word(i64(v10)), dl_word(i64(v3))};
      dl_fail(run, t, site + 1, 2, w12);
      return;
    }
    const dl_index v13 = v10;
    const dl_index v14 = dl_add(v8, v4);
    if (!v5) {
      dl_fail(run, t, site + 2, 0, nullptr);
      return;
    }
    const dl_index v15 = v2;
    const dl_index v16 = dl_mod(v14, v15);
    const f64 v17 = p6[v2*v13 + v16];
    p7[v8] = v17;
  }
}
