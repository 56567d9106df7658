struct dl_reduction_0_totals {
  enum { count = 3 };
  f64 a0 = 0.0;
  f64 a1 = (-dl_infinity_f64());
  i64 a2 = -1ll;
  __device__ void join(const dl_reduction_0_totals &later) {
    a0 = a0 + later.a0;
    if (dl_larger(later.a1, later.a2, a1, a2)) { a1 = later.a1; a2 = later.a2; }
  }
  __device__ dl_reduction_0_totals shuffled(i32 d) const { dl_reduction_0_totals other; other.a0 = dl_shuffle(a0, d); other.a1 = dl_shuffle(a1, d); other.a2 = dl_shuffle(a2, d); return other; }
  template <class W> __device__ void put(W &&words, i64 at) const { words[at + 0] = dl_word(a0); words[at + 1] = dl_word(a1); words[at + 2] = dl_word(a2); }
  template <class W> __device__ void get(W &&words, i64 at) { a0 = dl_of_word<f64>(words[at + 0]); a1 = dl_of_word<f64>(words[at + 1]); a2 = dl_of_word<i64>(words[at + 2]); }
};
extern "C" __global__ void __launch_bounds__(256) dl_reduction_0(dl_run *run, i64 trips, DL_GLOBAL(f64) p1) {
  // reduction
  dl_reduction_0_totals a2;
  for (i64 t = dl_first(); t < trips; t += dl_stride()) {
    const i64 v3 = t;
    const f64 v4 = p1[v3];
    const i64 v5 = v3;
    a2.a0 = a2.a0 + v4;
    if (dl_larger(v4, v5, a2.a1, a2.a2)) {
      a2.a1 = v4;
      a2.a2 = v5;
    }
  }
  dl_fold_grid(run, a2);
}
