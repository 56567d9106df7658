extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, DL_GLOBAL(i64) p1, dl_index v2, DL_GLOBAL(f64) p3, DL_GLOBAL(f64) p4) {
  // map
  if (dl_failed(run, site, 1)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index v5 = t;
    const i64 v6 = p1[v5];
    const bool v7 = v6 < i64(v2);
    const bool v8 = v6 >= 0ll;
    const bool v9 = v8 && v7;
    if (!v9) {
      const i64 w10[] = {dl_word(v6), dl_word(i64(v2))};
      dl_fail(run, t, site + 0, 2, w10);
      return;
    }
    const i64 v11 = v6;
    const f64 v12 = p3[v11];
    const f64 v13 = 2.0 * v12;
    p4[v5] = v13;
  }
}
