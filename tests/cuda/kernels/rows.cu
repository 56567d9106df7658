struct dl_rows_0_totals0 {
  enum { count = 1 };
  f64 a0 = 0.0;
  __device__ void join(const dl_rows_0_totals0 &later) {
    a0 = a0 + later.a0;
  }
  __device__ dl_rows_0_totals0 shuffled(i32 d) const { dl_rows_0_totals0 other; other.a0 = dl_shuffle(a0, d); return other; }
  template <class W> __device__ void put(W &&words, i64 at) const { words[at + 0] = dl_word(a0); }
  template <class W> __device__ void get(W &&words, i64 at) { a0 = dl_of_word<f64>(words[at + 0]); }
};
extern "C" __global__ void __launch_bounds__(256) dl_rows_0(dl_run *run, i64 site, dl_index iterations, DL_GLOBAL(f64) p1, dl_index v2, DL_GLOBAL(f64) p3) {
  // rows
  const i32 width = dl_width(v2, 4), rank = (i32)threadIdx.x % width;
  const bool kept4 = v2 <= width * 4;
  for (dl_index t = dl_first_row(width); t < iterations; t += dl_rows(width)) {
    const dl_index v5 = t;
    DL_GLOBAL(f64) p6 = p1 + (v2*v5);
    dl_rows_0_totals0 a7;
    f64 a8[2][2];
    #pragma unroll 1
    for (dl_index base = 0; base < v2; base += width * 4) {
      #pragma unroll
      for (i32 q = 0; q < 2; ++q) {
        const dl_index j9 = base + (q * width + rank) * 2;
        const i32 n10 = dl_left(v2 - j9);
        if (n10) dl_load(a8[q], p3, v2*v5 + j9, n10);
      }
      #pragma unroll
      for (i32 q = 0; q < 2; ++q) {
        const dl_index j9 = base + (q * width + rank) * 2;
        const i32 n10 = dl_left(v2 - j9);
        if (!n10) break;
        #pragma unroll
        for (i32 k = 0; k < 2; ++k) if (k < n10) {
          const dl_index v11 = j9 + k;
          const f64 v12 = a8[q][k];
          a7.a0 = a7.a0 + v12;
        }
      }
    }
    dl_fold_group(a7, width);
    f64 a13[2][2];
    #pragma unroll 1
    for (dl_index base = 0; base < v2; base += width * 4) {
      #pragma unroll
      for (i32 q = 0; q < 2; ++q) {
        const dl_index j14 = base + (q * width + rank) * 2;
        const i32 n15 = dl_left(v2 - j14);
        if (!kept4 && n15) dl_load(a8[q], p3, v2*v5 + j14, n15);
      }
      #pragma unroll
      for (i32 q = 0; q < 2; ++q) {
        const dl_index j14 = base + (q * width + rank) * 2;
        const i32 n15 = dl_left(v2 - j14);
        if (!n15) break;
        #pragma unroll
        for (i32 k = 0; k < 2; ++k) {
          const dl_index v16 = j14 + k;
          const f64 v17 = a8[q][k];
          const f64 v18 = v17 / a7.a0;
          a13[q][k] = v18;
        }
        dl_store(p6, j14, a13[q], n15);
      }
    }
  }
}
