extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, dl_index iterations, bool v1, dl_index v2, bool v3, dl_index v4, dl_index v5, bool v6, DL_GLOBAL(f64) p7, DL_GLOBAL(f64) p8) {
  // map
  if (dl_failed(run, site, 3)) return;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index v9 = t;
    if (!v1) {
      dl_fail(run, t, site + 0, 0, nullptr);
      return;
    }
    const dl_index v10 = v2;
    const dl_index v11 = v9 + 1;
    const dl_index v12 = dl_floordiv(v11, v10);
    if (!v3) {
      dl_fail(run, t, site + 1, 0, nullptr);
      return;
    }
    const dl_index v13 = v4;
    const dl_index v14 = dl_mod(v12, v13);
    const dl_index v15 = dl_add(v9, v5);
    if (!v6) {
      dl_fail(run, t, site + 2, 0, nullptr);
      return;
    }
    const dl_index v16 = v2;
    const dl_index v17 = dl_mod(v15, v16);
    const f64 v18 = p7[v2*v14 + v17];
    p8[v9] = v18;
  }
}
