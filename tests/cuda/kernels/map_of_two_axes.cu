extern "C" __global__ void __launch_bounds__(256) dl_map_0(dl_run *run, i64 site, i64 trips, i64 v1, DL_GLOBAL(f32) p2, DL_GLOBAL(f32) p3, DL_GLOBAL(f32) p4) {
  // map
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 n5 = v1;
    const i64 t6 = t / n5;
    const i64 v7 = t % n5;
    const i64 v8 = t6;
    const f32 v9 = p2[v8];
    const f32 v10 = p3[v7];
    const f32 v11 = dl_maximum(v9, v10);
    p4[v1*v8 + v7] = v11;
  }
}
