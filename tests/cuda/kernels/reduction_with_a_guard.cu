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
extern "C" __global__ void __launch_bounds__(256) dl_reduction_0(dl_run *run, i64 trips, DL_GLOBAL(i64) p1, i64 v2, DL_GLOBAL(f64) p3) {
  // reduction
  dl_reduction_0_totals a4;
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 v5 = t;
    const i64 v6 = p1[v5];
    const bool v7 = v6 < v2;
    const bool v8 = v6 >= 0ll;
    const bool v9 = v8 && v7;
    if (!v9) {
      const i64 w10[] = {dl_word(v6), dl_word(v2)};
      dl_fail(run, t, 0, 2, w10);
      goto done;
    }
    const i64 v11 = v6;
    const f64 v12 = p3[v11];
    a4.a0 = a4.a0 + v12;
  }
done:
  dl_fold_grid(run, a4);
}
