"""The kernels that are measured, each with its sizes and arguments."""

from __future__ import annotations

from benchmarks.spellings.kernel import Kernel

KERNELS = (
    Kernel(
        "dense_layers", {"b": 8, "t": 32, "c": 32, "h": 64, "m": 16}, {"b": 2, "t": 3, "c": 2, "h": 4, "m": 3},
        ("w", "p", "v", "q"),
        lambda draw, b, t, c, h, m: {
            "x": draw.normal(b, t, c), "w": 0.2 * draw.normal(c, h), "p": 0.1 * draw.normal(h),
            "v": 0.2 * draw.normal(h, m), "q": 0.1 * draw.normal(m),
        }, "f32",
    ),
    Kernel(
        "filtered_signal", {"n": 5000, "k": 9}, {"n": 12, "k": 3}, ("w", "x"),
        lambda draw, n, k: {"x": draw.normal(n), "w": draw.normal(k)},
    ),
    Kernel(
        "covariance", {"n": 500, "d": 24}, {"n": 7, "d": 3}, ("x",), lambda draw, n, d: {"x": draw.normal(n, d) + 0.5},
    ),
    Kernel(
        "sums_by_label", {"n": 20000, "k": 16}, {"n": 20, "k": 4}, ("x",),
        lambda draw, n, k: {"x": draw.normal(n), "label": draw.integers(k, n), "k": k},
    ),
    Kernel(
        "heat", {"n": 64, "m": 64}, {"n": 4, "m": 5}, ("u", "rate"),
        lambda draw, n, m: {"u": draw.normal(n, m), "rate": 0.2},
    ),
    Kernel(
        "nearest_centre", {"n": 1000, "k": 16, "d": 4}, {"n": 8, "k": 3, "d": 2}, ("x", "centres"),
        lambda draw, n, k, d: {"x": draw.normal(n, d), "centres": draw.normal(k, d)},
    ),
    Kernel(
        "layer_norm", {"n": 500, "d": 64}, {"n": 4, "d": 5}, ("x", "scale", "shift"),
        lambda draw, n, d: {
            "x": draw.normal(n, d), "scale": draw.uniform(0.5, 1.5, d), "shift": 0.1 * draw.normal(d),
            "y": draw.normal(n, d),
        }, "f32",
    ),
    Kernel("log_sum_exp", {"n": 5000}, {"n": 70}, ("x",), lambda draw, n: {"x": 3.0 * draw.normal(n)}),
    Kernel(
        "lstm", {"b": 16, "t": 6, "n": 24, "m": 32}, {"b": 2, "t": 2, "n": 2, "m": 3}, ("w", "u", "p"),
        lambda draw, b, t, n, m: {
            "xs": draw.normal(t, b, n), "w": 0.2 * draw.normal(4, n, m), "u": 0.2 * draw.normal(4, m, m),
            "p": 0.1 * draw.normal(4, 1, m),
        }, "f32",
    ),
    Kernel(
        "masked_moments", {"n": 400, "m": 50}, {"n": 4, "m": 8}, ("x",),
        lambda draw, n, m: {"x": draw.normal(n, m) ** 2, "kept": draw.mask(0.7, n, m)},
    ),
    Kernel(
        "pair_potential", {"n": 400}, {"n": 5}, ("r", "soft"), lambda draw, n: {"r": draw.normal(n, 3), "soft": 0.05},
    ),
    Kernel(
        "polynomial", {"n": 5000, "k": 12}, {"n": 6, "k": 4}, ("c", "x"),
        lambda draw, n, k: {"c": draw.normal(k), "x": draw.uniform(-1.0, 1.0, n)},
    ),
    Kernel(
        "running_totals", {"m": 100, "n": 50}, {"m": 5, "n": 3}, ("x",), lambda draw, m, n: {"x": draw.normal(n, m)},
    ),
    Kernel(
        "cross_entropy", {"n": 1000, "k": 32}, {"n": 4, "k": 5}, ("z",),
        lambda draw, n, k: {"z": 2.0 * draw.normal(n, k), "label": draw.integers(k, n)},
    ),
    Kernel(
        "attention_head", {"t": 96, "d": 32}, {"t": 5, "d": 3}, ("q", "k", "v"),
        lambda draw, t, d: {"q": draw.normal(t, d), "k": draw.normal(t, d), "v": draw.normal(t, d)}, "f32",
    ),
    Kernel(
        "rms_norm", {"n": 500, "d": 64}, {"n": 4, "d": 5}, ("x", "scale", "gate"),
        lambda draw, n, d: {
            "x": draw.normal(n, d), "scale": draw.uniform(0.5, 1.5, d), "gate": draw.normal(n, d),
        }, "f32",
    ),
    Kernel(
        "batch_norm", {"n": 500, "d": 64}, {"n": 6, "d": 3}, ("x", "scale", "shift"),
        lambda draw, n, d: {
            "x": draw.normal(n, d), "scale": draw.uniform(0.5, 1.5, d), "shift": 0.1 * draw.normal(d),
        }, "f32",
    ),
    Kernel(
        "gru", {"b": 16, "t": 6, "n": 24, "m": 32}, {"b": 2, "t": 2, "n": 2, "m": 3}, ("w", "u", "p", "q"),
        lambda draw, b, t, n, m: {
            "xs": draw.normal(t, b, n), "w": 0.2 * draw.normal(3, n, m), "u": 0.2 * draw.normal(3, m, m),
            "p": 0.1 * draw.normal(3, 1, m), "q": 0.1 * draw.normal(3, 1, m),
        }, "f32",
    ),
    Kernel(
        "message_passing", {"n": 300, "degree": 5, "d": 16}, {"n": 5, "degree": 2, "d": 3}, ("x", "w", "weight"),
        lambda draw, n, degree, d: {
            "x": draw.normal(n, d), "w": 0.3 * draw.normal(d, d), "start": draw.integers(n, n * degree),
            "end": draw.integers(n, n * degree), "weight": draw.uniform(0.0, 1.0, n * degree),
        }, "f32",
    ),
    Kernel(
        "soft_histogram", {"n": 20000, "k": 16}, {"n": 20, "k": 4}, ("x",),
        lambda draw, n, k: {"x": draw.uniform(0.0, 1.0, n), "target": draw.uniform(0.0, 1.0, k)},
    ),
    Kernel(
        "moving_average", {"n": 5000, "w": 11}, {"n": 9, "w": 3}, ("x",),
        lambda draw, n, w: {"x": draw.normal(n), "w": w},
    ),
    Kernel(
        "strided_samples", {"n": 50000, "s": 5}, {"n": 14, "s": 3}, ("x",),
        lambda draw, n, s: {"x": draw.normal(n), "s": s},
    ),
    Kernel(
        "tridiagonal", {"n": 5000}, {"n": 6}, ("a", "b", "c", "d"),
        lambda draw, n: {
            "a": draw.uniform(-1.0, 1.0, n), "b": draw.uniform(3.0, 4.0, n), "c": draw.uniform(-1.0, 1.0, n),
            "d": draw.normal(n),
        },
    ),
    Kernel(
        "cholesky_by_hand", {"n": 24}, {"n": 4}, ("a",), lambda draw, n: {"a": draw.positive_definite(n)},
    ),
    Kernel(
        "lorenz", {"n": 200}, {"n": 2}, ("starts", "sigma", "rho", "beta"),
        lambda draw, n: {"starts": draw.normal(n, 3), "sigma": 10.0, "rho": 28.0, "beta": 8.0 / 3.0},
    ),
    Kernel(
        "gaussian_mixture", {"n": 500, "k": 8, "d": 4}, {"n": 4, "k": 3, "d": 2}, ("weight", "m", "s"),
        lambda draw, n, k, d: {
            "x": draw.normal(n, d), "weight": draw.normal(k), "m": draw.normal(k, d), "s": 0.1 * draw.normal(k, d),
        },
    ),
    Kernel(
        "hmm_forward", {"t": 100, "k": 8, "m": 10}, {"t": 4, "k": 3, "m": 4}, ("start", "change", "emit"),
        lambda draw, t, k, m: {
            "start": draw.normal(k), "change": draw.normal(k, k), "emit": draw.normal(k, m),
            "seen": draw.integers(m, t),
        },
    ),
    Kernel(
        "ridge", {"n": 500, "d": 24, "k": 8}, {"n": 6, "d": 3, "k": 2}, ("w", "b", "penalty"),
        lambda draw, n, d, k: {
            "x": draw.normal(n, d), "y": draw.normal(n, k), "w": draw.normal(d, k), "b": draw.normal(k), "penalty": 0.1,
        },
    ),
    Kernel(
        "logistic_regression", {"n": 2000, "d": 16}, {"n": 6, "d": 3}, ("w", "b"),
        lambda draw, n, d: {
            "x": draw.normal(n, d), "label": draw.integers(2, n).astype(draw.dtype), "w": draw.normal(d), "b": 0.1,
        },
    ),
    Kernel(
        "power_iteration", {"n": 400, "d": 16}, {"n": 6, "d": 3}, ("x", "start"),
        lambda draw, n, d: {"x": draw.normal(n, d), "start": draw.uniform(0.5, 1.0, d)},
    ),
    Kernel(
        "bilinear", {"p": 5000, "h": 50, "w": 40}, {"p": 6, "h": 3, "w": 4}, ("picture", "y", "x"),
        lambda draw, p, h, w: {
            "picture": draw.normal(h, w), "y": draw.uniform(0.0, h - 1.0, p), "x": draw.uniform(0.0, w - 1.0, p),
        },
    ),
    Kernel(
        "black_scholes", {"n": 2000}, {"n": 5}, ("s", "k", "t", "sigma", "rate"),
        lambda draw, n: {
            "s": draw.uniform(80.0, 120.0, n), "k": draw.uniform(80.0, 120.0, n), "t": draw.uniform(0.2, 2.0, n),
            "sigma": 0.3, "rate": 0.02, "call": draw.mask(0.5, n),
        },
    ),
    Kernel(
        "soft_dtw", {"n": 60, "m": 60}, {"n": 4, "m": 3}, ("x", "y"),
        lambda draw, n, m: {"x": draw.normal(n), "y": draw.normal(m), "gamma": 0.7},
    ),
    Kernel(
        "ising", {"n": 64, "m": 64}, {"n": 3, "m": 4}, ("s", "right", "down", "field"),
        lambda draw, n, m: {
            "s": draw.normal(n, m), "right": draw.normal(n, m), "down": draw.normal(n, m), "field": 0.3,
        },
    ),
    Kernel(
        "variance", {"b": 20, "n": 500}, {"b": 3, "n": 6}, ("x", "w"),
        lambda draw, b, n: {"x": draw.normal(n), "w": draw.uniform(0.5, 1.5, n), "chosen": draw.integers(n, b, n)},
    ),
    Kernel(
        "discounted_returns", {"t": 100, "b": 50}, {"t": 4, "b": 2}, ("reward", "baseline", "gamma"),
        lambda draw, t, b: {"reward": draw.normal(b, t), "baseline": draw.normal(b, t), "gamma": 0.97},
    ),
    Kernel(
        "rotation", {"n": 3000}, {"n": 4}, ("q", "x"),
        lambda draw, n: {"q": draw.normal(4), "x": draw.normal(n, 3), "y": draw.normal(n, 3)},
    ),
    Kernel(
        "small_matrices", {"n": 1000}, {"n": 3}, ("a", "x"),
        lambda draw, n: {"a": draw.normal(n, 4, 4), "x": draw.normal(n, 4)},
    ),
    Kernel(
        "random_walks", {"n": 200, "t": 50}, {"n": 4, "t": 5}, ("z", "sigma", "drift"),
        lambda draw, n, t: {"z": draw.normal(n, t), "sigma": 0.1, "drift": 0.01},
    ),
    Kernel(
        "segment_max", {"n": 20000, "k": 16}, {"n": 20, "k": 3}, ("x", "w"),
        lambda draw, n, k: {
            "x": draw.normal(n), "w": draw.uniform(0.5, 1.5, n), "label": draw.integers(k, n), "k": k,
        },
    ),
)  # fmt: skip
