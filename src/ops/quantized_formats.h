// The numbers that quantized codes stand for, shared by the CPU and CUDA.
#pragma once

namespace dpo::ops {

// nf4: quantiles of a normal distribution, with an exact zero.
struct Nf4Levels {
  float values[16] = {-1.0F,
                      -0.6961928009986877F,
                      -0.5250730514526367F,
                      -0.39491748809814453F,
                      -0.28444138169288635F,
                      -0.18477343022823334F,
                      -0.09105003625154495F,
                      0.0F,
                      0.07958029955625534F,
                      0.16093020141124725F,
                      0.24611230194568634F,
                      0.33791524171829224F,
                      0.44070982933044434F,
                      0.5626170039176941F,
                      0.7229568362236023F,
                      1.0F};
};

// The positive numbers of bitsandbytes' dynamic map. Each power of ten is divided into equal parts, and the
// numbers are their midpoints.
inline constexpr float kDynamicNumbers[128] = {5.5000004e-07F, 3.2500002e-06F, 7.75e-06F,      2.1249998e-05F,
                                               4.375e-05F,     6.625e-05F,     8.875e-05F,     1.5625001e-04F,
                                               2.6875004e-04F, 3.8125002e-04F, 4.9375003e-04F, 6.062501e-04F,
                                               7.1875006e-04F, 8.3125e-04F,    9.437501e-04F,  0.0012812499F,
                                               0.00184375F,    0.00240625F,    0.00296875F,    0.0035312497F,
                                               0.00409375F,    0.0046562497F,  0.0052187503F,  0.00578125F,
                                               0.00634375F,    0.00690625F,    0.00746875F,    0.00803125F,
                                               0.00859375F,    0.009156249F,   0.00971875F,    0.01140625F,
                                               0.01421875F,    0.01703125F,    0.019843752F,   0.02265625F,
                                               0.02546875F,    0.028281251F,   0.03109375F,    0.03390625F,
                                               0.036718752F,   0.03953125F,    0.042343747F,   0.04515625F,
                                               0.04796875F,    0.05078125F,    0.05359375F,    0.05640625F,
                                               0.059218753F,   0.06203125F,    0.06484375F,    0.067656256F,
                                               0.070468746F,   0.07328125F,    0.07609375F,    0.07890625F,
                                               0.08171876F,    0.08453125F,    0.08734375F,    0.09015625F,
                                               0.092968754F,   0.09578126F,    0.09859375F,    0.107031256F,
                                               0.12109375F,    0.13515624F,    0.14921875F,    0.16328125F,
                                               0.17734376F,    0.19140625F,    0.20546874F,    0.21953125F,
                                               0.23359375F,    0.24765624F,    0.26171875F,    0.27578127F,
                                               0.28984374F,    0.30390626F,    0.31796873F,    0.33203125F,
                                               0.34609374F,    0.36015624F,    0.37421876F,    0.38828123F,
                                               0.40234375F,    0.41640624F,    0.43046874F,    0.44453126F,
                                               0.45859373F,    0.47265625F,    0.4867187F,     0.50078124F,
                                               0.5148437F,     0.5289062F,     0.54296875F,    0.5570313F,
                                               0.5710938F,     0.58515626F,    0.5992187F,     0.61328125F,
                                               0.6273438F,     0.6414063F,     0.65546876F,    0.6695312F,
                                               0.68359375F,    0.6976563F,     0.7117188F,     0.72578126F,
                                               0.7398437F,     0.75390625F,    0.7679688F,     0.78203124F,
                                               0.79609376F,    0.8101562F,     0.82421875F,    0.8382813F,
                                               0.85234374F,    0.86640626F,    0.8804687F,     0.89453125F,
                                               0.9085938F,     0.92265624F,    0.93671876F,    0.9507812F,
                                               0.96484375F,    0.9789063F,     0.99296874F,    1.0F};

// The whole map, ascending: the negatives of all numbers but 1, zero, and the positive numbers.
struct DynamicMap {
  float values[256] = {};

  constexpr DynamicMap() {
    for (int i = 0; i < 128; ++i) values[128 + i] = kDynamicNumbers[i];
    for (int i = 0; i < 127; ++i) values[126 - i] = -kDynamicNumbers[i];
  }
};

// e4m3 (float8_e4m3fn): its largest number, the least scale that can be divided by, and the number whose
// multiples the sizes of a matmul on a GPU must be.
inline constexpr float kLargestE4m3 = 448, kSmallestFp8Scale = 1e-38F;
inline constexpr int kFp8Multiple = 16;

}  // namespace dpo::ops
