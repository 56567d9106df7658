extern "C" __global__ void __launch_bounds__(256) dl_tiles_0(dl_run *run, i64 site, dl_index iterations, dl_index v1, dl_index v2, DL_GLOBAL(f32) p3, DL_GLOBAL(f32) p4, DL_GLOBAL(f32) p5) {
  // tiles
  const i32 x = (i32)threadIdx.x % 32, y = (i32)threadIdx.x / 32, step = (i32)blockDim.x / 32;
  if (iterations == 0) return;
  const dl_index n6 = dl_quotient(v1 + 31, 32);
  const dl_index n7 = dl_quotient(v2 + 31, 32);
  DL_SHARED(f32, s8, 32 * 33);
  for (dl_index t = blockIdx.x; t < iterations; t += gridDim.x) {
    const dl_index i9 = dl_remainder(dl_quotient(t, n7), n6) * 32;
    const dl_index j10 = dl_remainder(t, n7) * 32;
    for (i32 k = y; k < 32; k += step) {
      const dl_index v11 = i9 + x;
      const dl_index v12 = j10 + k;
      if (v11 < v1 && v12 < v2) {
        s8[k * 33 + x] = p3[v1*v12 + v11];
      }
    }
    __syncthreads();
    for (i32 k = y; k < 32; k += step) {
      const dl_index v13 = i9 + k;
      const dl_index v14 = j10 + x;
      if (v13 < v1 && v14 < v2) {
        const f32 v15 = s8[x * 33 + k];
        const f32 v16 = p4[v13];
        const f32 v17 = v15 * v16;
        p5[v2*v13 + v14] = v17;
      }
    }
    __syncthreads();
  }
}
