struct dl_scan_0_totals {
  enum { count = 1 };
  f32 a0 = 0.0f;
  __device__ void join(const dl_scan_0_totals &later) {
    a0 = a0 + later.a0;
  }
  __device__ dl_scan_0_totals shuffled(i32 d) const { dl_scan_0_totals other; other.a0 = dl_shuffle(a0, d); return other; }
  template <class W> __device__ void put(W &&words, i64 at) const { words[at + 0] = dl_word(a0); }
  template <class W> __device__ void get(W &&words, i64 at) { a0 = dl_of_word<f32>(words[at + 0]); }
};
extern "C" __global__ void __launch_bounds__(256) dl_scan_0(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f32) p2, DL_GLOBAL(f32) p3, DL_GLOBAL(f32) p4) {
  // scan
  for (dl_index t = blockIdx.x; t < iterations; t += gridDim.x) {
    const dl_index n5 = ((v1) / 4 / iterations + 1) * 4;
    const dl_index r6 = t * n5;
    const dl_index r7 = dl_minimum(dl_index(v1), dl_index(r6 + n5));
    dl_scan_0_totals a8;
    for (dl_index v9 = r6 + (i32)threadIdx.x; v9 < r7; v9 += (i32)blockDim.x) {
      const f32 v10 = p2[v9];
      a8.a0 = a8.a0 + v10;
    }
    dl_fold_group(a8, (i32)blockDim.x);
    if (threadIdx.x == 0) p4[t] = a8.a0;
  }
}

struct dl_scan_1_totals {
  enum { count = 1 };
  f32 a0 = 0.0f;
  __device__ void join(const dl_scan_1_totals &later) {
    a0 = a0 + later.a0;
  }
  __device__ dl_scan_1_totals shuffled(i32 d) const { dl_scan_1_totals other; other.a0 = dl_shuffle(a0, d); return other; }
  template <class W> __device__ void put(W &&words, i64 at) const { words[at + 0] = dl_word(a0); }
  template <class W> __device__ void get(W &&words, i64 at) { a0 = dl_of_word<f32>(words[at + 0]); }
};
extern "C" __global__ void __launch_bounds__(256) dl_scan_1(dl_run *run, i64 site, dl_index iterations, dl_index v1, DL_GLOBAL(f32) p2, DL_GLOBAL(f32) p3, DL_GLOBAL(f32) p4, DL_GLOBAL(f32) p5) {
  // scan
  for (dl_index t = blockIdx.x; t < iterations; t += gridDim.x) {
    const dl_index n6 = ((v1) / 4 / iterations + 1) * 4;
    const dl_index r7 = t * n6;
    const dl_index r8 = dl_minimum(dl_index(v1), dl_index(r7 + n6));
    dl_scan_1_totals a9;
    for (dl_index b = threadIdx.x; b < t; b += blockDim.x) {
      dl_scan_1_totals a10;
      a10.a0 = p4[b];
      a9.join(a10);
    }
    dl_fold_group(a9, (i32)blockDim.x);
    dl_scan_1_totals a11;
    a11.a0 = 0.0f;
    a11.join(a9);
    #pragma unroll 1
    for (dl_index base = r7; base < r8; base += (i32)blockDim.x * 4) {
      const dl_index j12 = base + (i32)threadIdx.x * 4;
      const i32 n13 = dl_left(r8 - j12);
      f32 a15[4];
      f32 a16[4];
      dl_load(a15, p2, j12, n13);
      dl_scan_1_totals a14;
      #pragma unroll
      for (i32 k = 0; k < 4; ++k) if (k < n13) {
        const dl_index v17 = j12 + k;
        const f32 v18 = a15[k];
        a14.a0 = a14.a0 + v18;
      }
      dl_scan_block(a14, a11);
      #pragma unroll
      for (i32 k = 0; k < 4; ++k) if (k < n13) {
        const dl_index v19 = j12 + k;
        const f32 v20 = a15[k];
        const f32 v21 = a14.a0 + v20;
        a16[k] = v21;
        a14.a0 = v21;
      }
      dl_store(p3, j12, a16, n13);
    }
    if (t == iterations - 1 && threadIdx.x == 0) p5[0] = a11.a0;
  }
}
