struct dl_reduction_0_totals {
  enum { count = 1 };
  f64 a0 = 0.0;
  __device__ void join(const dl_reduction_0_totals &later) {
    a0 = a0 + later.a0;
  }
  __device__ dl_reduction_0_totals shuffled(i32 d) const { dl_reduction_0_totals other; other.a0 = dl_shuffle(a0, d); return other; }
  template <class W> __device__ void put(W &&words, i64 at) const { words[at + 0] = dl_word(a0); }
  template <class W> __device__ void get(W &&words, i64 at) { a0 = dl_of_word<f64>(words[at + 0]); }
};
extern "C" __global__ void __launch_bounds__(256) dl_reduction_0(dl_run *run, i64 site, dl_index iterations, DL_GLOBAL(i64) p1, i64 v2, DL_GLOBAL(f64) p3, DL_GLOBAL(f64) p4) {
  // reduction
  if (dl_failed(run, site, 1)) return;
  dl_reduction_0_totals a5;
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index v6 = t;
    const i64 v7 = p1[v6];
    const bool v8 = v7 < v2;
    const bool v9 = v7 >= 0ll;
    const bool v10 = v9 && v8;
    if (!v10) {
      const i64 w11[] = {dl_word(v7), dl_word(v2)};
      dl_fail(run, t, site + 0, 2, w11);
      goto done;
    }
    const i64 v12 = v7;
    const f64 v13 = p3[v12];
    a5.a0 = a5.a0 + v13;
  }
done:
  if (dl_fold_grid(run, a5)) {
    p4[0] = a5.a0;
  }
}

extern "C" __global__ void __launch_bounds__(256) dl_map_1(dl_run *run, i64 site, dl_index iterations, DL_GLOBAL(f64) p1, DL_GLOBAL(f64) p2) {
  // map
  if (dl_failed(run, site, 0)) return;
  const f64 v3 = p1[0];
  for (dl_index t = dl_first(); t < iterations; t += dl_stride()) {
    const dl_index v4 = t;
    p2[0] = v3;
  }
}
