extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, bool v1, dl_index v2, dl_index v3, dl_index v4, DL_GLOBAL(f64) p5, DL_GLOBAL(f64) p6) {
  // map
  if (dl_failed(run, site, 2)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index v7 = t;
    if (!v1) {
      dl_fail(run, t, site + 0, 0, nullptr);
      return;
    }
    const dl_index v8 = v2;
    const dl_index v9 = dl_floordiv(v7, v8);
    const bool v10 = i64(v9) < i64(v3);
    const bool v11 = i64(v9) >= 0ll;
    const bool v12 = v11 && v10;
    if (!v12) {
      const i64 w13[] = {dl_word(i64(v9)), dl_word(i64(v3))};
      dl_fail(run, t, site + 1, 2, w13);
      return;
    }
    const dl_index v14 = v9;
    const dl_index v15 = dl_add(v7, v4);
    const dl_index v16 = v2;
    const dl_index v17 = dl_mod(v15, v16);
    const f64 v18 = p5[v2*v14 + v17];
    p6[v7] = v18;
  }
}
