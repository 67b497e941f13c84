"""Tables of drawn models of ONNX: signals, sequences, graphs inside of nodes, attention, learned tables, and com.microsoft's domain."""

from __future__ import annotations

from drawn_onnx import table
from drawn_rows import Row

__all__: list[str] = []

table(
    "signals",
    (
        Row(
            "y = DFT <inverse = $(0|1), axis = $(1|2)> (x$(|, l))",
            "x: $(f|d)[a, c, D, $(1|2)]  l: l[]!! = $(3|4|7)",
            (17, 19),
        ),
        Row(
            "y = DFT <onesided = 1> (x, $(|l), a)",
            "x: f[a, c, D, 1]  l: l[]!! = $(3|4|7)  a: l[]!! = $(1|2|-2)",
            (20, 22),
        ),
        Row("y = DFT <inverse = $(0|1)> (x, , a)", "x: f[a, c, D, 2]  a: l[]!! = $(1|2|-2)", (20, 22)),
        Row(
            "y = STFT <onesided = $(0|1)> (x, s, $(w|, l|w, l))",
            "x: f[b, $(17|24|31), 1]  s: l[]!! = $(1|3|5)  w: f[8]!  l: l[]!! = 8",
        ),
        Row("y = STFT <onesided = 0> (x, s, w)", "x: f[b, 20, 2]  s: l[]!! = $(2|4)  w: f[$(5|8)]!"),
        Row(
            "y = $(Hann|Hamming|Blackman)Window <periodic = $(0|1), output_datatype = $(1|1|11)> (n)",
            "n: l[]! = $(1|2|3|8|13)",
        ),
        Row(
            "y = MelWeightMatrix (b, p, r, l, h)",
            "b: l[]!! = $(1|3|8)  p: l[]!! = $(8|16|33)  r: l[]!! = $(8000|16000)  l: f[]!! = $(0|20.5)  h: f[]!! = $(2000|4000)",
        ),
    ),
)

_LISTS = (
    "s = SequenceConstruct(x, z, x)",
    "e = SequenceEmpty <dtype = {to}> ()  i = SequenceInsert(e, x)  j = SequenceInsert(i, z)  s = SequenceInsert(j, x$(|, at))",
    "t = SequenceConstruct(z, x, z, x)  s = SequenceErase(t$(|, at))",
)
table(
    "sequences",
    (
        *(
            Row(
                f"{make.replace('{to}', to)}  {use}",
                f"x: {dtype}[m, n]  z: {dtype}[m, n]  at: $(l|i)[]!! = $(0|1|-1|2|-2)",
            )
            for dtype, to in (("f", "1"), ("l", "7"), ("b", "9"))
            for make in _LISTS
            for use in (
                "y = ConcatFromSequence <axis = $(0|1|-1|-2), new_axis = 0> (s)",
                "y = ConcatFromSequence <axis = $(0|1|2|-1|-3), new_axis = 1> (s)",
                "y = SequenceAt(s, at)",
                "y = SequenceLength(s)",
            )
        ),
        Row("s = SequenceConstruct(x, z)  y = ConcatFromSequence <axis = -1> (s)", "x: f[m, n]  z: f[m, k]"),
        Row(
            "s = SplitToSequence <axis = $(0|1|-1), keepdims = $(0|1)> (x)  y = ConcatFromSequence <axis = 0, new_axis = 1> (s)",
            "x: $(f|l)[3, 4]",
        ),
        Row(
            "s = SplitToSequence <axis = $(0|-2), keepdims = 0> (x, k)  y = SequenceAt(s, at)  yn = SequenceLength(s)",
            "x: $(f|i)[$(4|5|7), n]  k: l[]!! = $(1|2|3)  at: l[]!! = $(0|1|-1)",
        ),
        Row(
            "s = SplitToSequence <axis = 1> (x, k)  y = SequenceAt(s, at)",
            "x: f[m, 4]  k: l[2]!! = 2  at: l[]!! = $(0|-1)",
        ),
        Row(
            "a = OptionalGetElement(x)  b = OptionalHasElement(x)  c = Cast <to = 1> (b)  y = Add(a, c)",
            "x: f[m, n]",
            (18, 22),
        ),
        Row(
            "v = Constant <value = bool {1}> ()  e = SequenceEmpty()  yh, s, yq = Loop (t, v, h, e) <body = body (int64 i, bool on,"
            " float[$(=N)] a, seq(float) b) => (bool go, float[$(=N)] c, seq(float) d, float q) { r = Gather(x, i)  c = Add(a, r)"
            "  d = SequenceInsert(b, c)  q = ReduceSum <keepdims = 0> (c)  go = Less(q, limit) }>"
            "  y = ConcatFromSequence <axis = $(0|-1), new_axis = 1> (s)",
            "x: f[5, N]  h: f[N]  t: l[]! = $(1|3|5)  limit: f[] = $(-3|5|99)",
        ),
    ),
)

table(
    "inside",
    (
        Row(
            "y = If(c) <then_branch = t () => (float[p, q] a) { u = $(Abs|Neg|Exp)(x)  a = Mul(u, z) },"
            " else_branch = e () => (float[p, q] b) { b = $(Sub|Max)(x, z) }>",
            "x: f[m, n]  z: f[$(m, n|n|1|)]  c: b[]",
        ),
        Row(
            "y, yr = Loop(t, c, x) <body = body (int64 i, bool on, float[$(=N)] s) => (bool go, float[$(=N)] u, float[$(=N)] r) {"
            " f = Cast <to = 1> (i)  v = Mul(s, w)  u = Add(v, f)  r = $(Tanh|Neg)(u)  m = ReduceMax <keepdims = 0> (u)"
            "  go = Less(m, limit) }>",
            "x: f[N]  w: f[$(N|1)]  t: l[] = $(0|1|4)  c: b[]  limit: f[] = $(-9|3|99)",
        ),
        Row(
            "y = Loop(t, , x) <body = body (int64 i, bool on, float[p, q] s) => (bool go, float[p, q] u) {"
            " g = Gather <axis = 0> (w, i)  u = Add(s, g)  go = Identity(on) }>",
            "x: f[m, n]  w: f[3, $(1|n)]  t: l[]! = $(0|1|3)",
        ),
        Row(
            "y, yr = Scan <num_scan_inputs = 1, scan_input_axes = [$(0|-2)], scan_input_directions = [$(0|1)],"
            " scan_output_axes = [$(0|1|-1)], scan_output_directions = [$(0|1)], body = body (float[q] s, float[q] a)"
            " => (float[q] u, float[q] r) { u = Add(s, a)  r = Mul(u, a) }> (h, x)",
            "h: f[n]  x: f[m, n]",
            least=1,
        ),
        Row(
            "y = ai.onnx.preview.FlexAttention <scale = $(0.5|0.25)> (q, k, v)",
            "q: f[b, 4, l, 6]  k: f[b, 2, s, 6]  v: f[b, 2, s, 5]",
            (26, 26),
        ),
    ),
)

table(
    "rest",
    (
        Row(
            "y = Attention <is_causal = $(0|1)$(|, scale = 0.3)$(|, softcap = 2.0)> (q, k, v$(|, m))",
            "q: f[b, 4, l, 6]  k: f[b, 2, s, 6]  v: f[b, 2, s, 5]  m: $(f|b)[$(l, s|1, 1, l, s|b, 4, l, s)]",
            (23, 24),
        ),
        Row(
            "y, yk, yv$(|, ys) = Attention <q_num_heads = 4, kv_num_heads = 2, is_causal = $(0|1), qk_matmul_output_mode = $(0|1|2|3)>"
            " (q, k, v, $(|m), pk, pv)",
            "q: f[b, L, 24]  k: f[b, S, 12]  v: f[b, S, 10]  m: f[L, P + S]  pk: f[b, 2, P, 6]  pv: f[b, 2, P, 5]",
            (23, 24),
        ),
        Row("y = BitCast <to = $(6|1)> (x)", "x: $(f|i)[m, n]", (26, 26)),
        Row("y = CastLike(x, z)", "x: $(positive|unit)[m, n]  z: $(f|d|i|u8|b|l|h)[k]", (15, 22)),
        Row(
            "y = CumProd <exclusive = $(0|1), reverse = $(0|1)> (x, a)",
            "x: $(f|d)[m, n]  a: l[]!! = $(0|1|-1)",
            (26, 26),
        ),
        Row("v = Constant <value_$(float = 1.5|floats = [1.5]|float = -2.0)> ()  y = Add(x, v)", "x: f[m, n]"),
        Row("y$(|, yr) = Dropout(x$(|, r))", "x: f[m, n]  r: f[]!! = 0.5"),
        *(
            Row(
                f"y = DeformConv <kernel_shape = [2, 2], group = {groups}, offset_group = {apart}> (x, w, o$(|, c|, , m|, c, m))",
                f"x: f[b, 4, 5, 6]  w: f[2, {4 // groups}, 2, 2]!  o: f[b, {8 * apart}, 4, 5]  c: f[2]!  m: unit[b, {4 * apart}, 4, 5]",
                (19, 22),
                1e-3,
            )
            for groups in (1, 2)
            for apart in (1, 2)
        ),
        Row(
            "y = MaxRoiPool <pooled_shape = [$(1|2), $(2|3)]$(|, spatial_scale = 0.5)> (x, r)",
            "x: f[1, c, 6, 7]  r: rois[k, 5]",
        ),
        Row(
            "p, i = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)  y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (p, i)",
            "x: f[2, 3, $(4|6), $(4|8)]",
        ),
        Row("y = Scatter <axis = $(0|1)> (x, i, u)", "x: f[4, 5]  i: l[1, 1] < 4  u: f[1, 1]", (9, 10)),
        Row(
            'y = TensorScatter <mode = "$(linear|circular)"$(|, axis = -2|, axis = 2)> (x, u, i)',
            "x: f[b, 2, 8, D]  u: f[b, 2, $(1|3), D]  i: l[b] < $(1|5)",
            (24, 24),
        ),
        Row(
            'y = Upsample <mode = "$(nearest|linear)", scales = [1.0, 1.0, $(1.0|2.0|3.0|1.5), $(1.0|2.0)]> (x)',
            "x: f[b, c, 3, 4]",
            (7, 8),
        ),
        Row('y = Upsample <mode = "$(nearest|linear)"> (x, s)', "x: f[b, c, 3, 4]  s: f[4]!! = $(1|2)", (9, 9)),
        Row(
            'y = TfIdfVectorizer <mode = "$(TF|IDF|TFIDF)", min_gram_length = $(1|2), max_gram_length = $(2|3), max_skip_count = $(0|1|2),'
            " ngram_counts = [0, 2, 6], ngram_indexes = [3, 0, 1, 2, 4], pool_int64s = [2, 5, 2, 5, 5, 5, 5, 2, 2]"
            "$(|, weights = [0.5, 2.0, 3.0, 4.0, 5.0])> (x)",
            "x: $(l|i)[$(|b, )$(4|7)] < 7",
        ),
        Row(
            'y, yp = CausalConvWithState <activation = "$(none|silu)"> (x, w$(|, c|, , p))',
            "x: f[b, 3, $(1|5)]  w: f[3, 1, 4]!  c: f[3]!  p: f[b, 3, 3]",
            (27, 27),
        ),
        *(
            Row(
                f'y, yp = LinearAttention <q_num_heads = 4, kv_num_heads = 2, update_rule = "{rule}"> (q, k, v{more})',
                "q: f[b, 3, 12]  k: f[b, 3, 6]  v: f[b, 3, 4]  d: negative[b, 3, 2]  e: unit[b, 3, 2]",
                (27, 27),
            )
            for rule, more in (("linear", ""), ("gated", ", , d"), ("delta", ", , , e"), ("gated_delta", ", , d, e"))
        ),
    ),
)

table(
    "learned",
    (
        Row("y = ai.onnx.ml.ArrayFeatureExtractor(x, i)", "x: $(f|l|d)[m, 6]  i: l[$(1, |)k] < 6"),
        Row("y = ai.onnx.ml.Binarizer <threshold = $(0.0|0.5|-1.0)> (x)", "x: f[m, n]"),
        Row(
            "y = ai.onnx.ml.LabelEncoder <keys_int64s = [3, 1, 4, -2], values_$(floats = [1.0, 2.5, 3.0, 4.0]|int64s = [7, 8, 9, 1])"
            "$(|, default_float = 5.5|, default_int64 = 6)> (x)",
            "x: l[m, n]",
        ),
        Row(
            "y = ai.onnx.ml.LabelEncoder <keys_floats = [0.0, 1.0, 2.0], values_$(floats = [1.0, 2.5, 3.0]|int64s = [7, 8, 9])> (x)",
            "x: whole[m, n]",
        ),
        *(
            Row(
                f"{gives} = ai.onnx.ml.TreeEnsemble{kind} <{what}, nodes_treeids = [0, 0, 0, 1, 1, 1, 1, 1],"
                " nodes_nodeids = [0, 1, 2, 7, 3, 4, 5, 6], nodes_featureids = [0, 0, 0, 2, 1, 0, 0, 0],"
                " nodes_values = [$(0.5|-0.5), 0.0, 0.0, 0.25, -0.25, 0.0, 0.0, 0.0],"
                ' nodes_modes = ["BRANCH_$(LEQ|LT|GTE|GT)", "LEAF", "LEAF", "BRANCH_$(LEQ|LT|GTE|GT)", "BRANCH_$(LEQ|NEQ|EQ)",'
                ' "LEAF", "LEAF", "LEAF"], nodes_truenodeids = [1, 0, 0, 3, 4, 0, 0, 0],'
                " nodes_falsenodeids = [2, 0, 0, 6, 5, 0, 0, 0], $(nodes_missing_value_tracks_true = [1, 0, 0, 0, 1, 0, 0, 0], |)"
                f" {part}_treeids = [0, 0, 1, 1, 1], {part}_nodeids = [1, 2, 4, 5, 6], {part}_ids = [{ids}],"
                f" {part}_weights = [{weights}]> (x)",
                f"x: {'$(f|l)' if kind == 'Classifier' else 'f'}[m, 3]",
            )
            for kind, gives, part, what, ids, weights in (
                (
                    "Classifier",
                    "y, z",
                    "class",
                    'classlabels_int64s = [4, 9, 7], post_transform = "$(NONE|LOGISTIC|SOFTMAX)"',
                    "0, 1, 2, 0, 1",
                    "0.5, 1.0, 0.75, -0.25, 2.0",
                ),
                (
                    "Classifier",
                    "y, z",
                    "class",
                    "classlabels_int64s = [4, 9]$(|, base_values = [0.3])",
                    "0, 0, 0, 0, 0",
                    "$(0.25, 0.125, 0.5, 0.25, 0.0|-0.25, 1.0, 0.25, -2.0, 0.5)",
                ),
                (
                    "Regressor",
                    "y",
                    "target",
                    'n_targets = 1, aggregate_function = "$(SUM|AVERAGE|MIN|MAX)"$(|, base_values = [0.5])',
                    "0, 0, 0, 0, 0",
                    "0.5, 1.0, 0.75, -0.25, 2.0",
                ),
                (
                    "Regressor",
                    "y",
                    "target",
                    "n_targets = 2$(|, base_values = [0.5, 1.0])",
                    "0, 1, 0, 0, 1",
                    "0.5, 1.0, 0.75, -0.25, 2.0",
                ),
            )
        ),
        Row(
            "y = ai.onnx.ml.TreeEnsemble <n_targets = $(3|4), aggregate_function = $(0|1|2|3), tree_roots = [$(0|0, 2|2)],"
            " nodes_modes = uint8[3] {$(0|1|2|3|4|5), $(0|1|2|3|4|5), $(0|2|5)}, nodes_featureids = [0, 2, 1],"
            " nodes_splits = float[3] {0.5, 1, -0.5}, nodes_truenodeids = [1, 0, 3], nodes_trueleafs = [0, 1, 1],"
            " nodes_falsenodeids = [2, 1, 4], nodes_falseleafs = [1, 1, 1], nodes_missing_value_tracks_true = [0, $(0|1), $(0|1)],"
            " leaf_targetids = [0, 2, 1, 2, 0], leaf_weights = float[5] {1, -2, 3, 0.25, 7}> (x)",
            "x: whole[m, 3]",
        ),
    ),
)

table(
    "microsoft",
    (
        Row("y = com.microsoft.Gelu(x)", "x: f[b, n]"),
        Row("y = com.microsoft.BiasGelu(x, w)", "x: f[b, m, n]  w: f[n]!"),
        Row("y = com.microsoft.FastGelu(x$(|, w))", "x: f[b, m, n]  w: f[n]!"),
        Row("y = com.microsoft.QuickGelu$(| <alpha = 0.7>) (x)", "x: f[b, n]"),
        *(
            Row(
                f"y = com.microsoft.BiasSoftmax <axis = {axis}, is_inner_broadcast = $(0|1)> (x, w)",
                "x: f[b, m, n]  w: f[$(1|b), 1, n]",
                means=f"s = Add(x, w)  y = Softmax <axis = {axis}> (s)",
            )
            for axis in (2, -1)
        ),
        Row(
            "y = com.microsoft.BiasAdd(x, w, z)",
            "x: f[b, m, N]  w: f[N]!  z: f[b, m, N]",
            means="s = Add(x, w)  y = Add(s, z)",
        ),
        Row(
            "y = com.microsoft.FusedMatMul <transA = $(0|1), alpha = $(1.0|0.5)> (x, z)",
            "x: f[M, M]  z: f[M, n]",
        ),
        Row(
            "y = com.microsoft.FusedMatMul <transBatchA = 1, transBatchB = $(0|1)> (x, z)",
            "x: f[M, M, M]  z: f[M, M, n]",
        ),
        Row(
            "y = com.microsoft.TransposeMatMul <transB = 1, alpha = $(1.0|0.5)> (x, z)", "x: f[$(b, |)m, k]  z: f[n, k]"
        ),
        *(
            Row(
                f'y = com.microsoft.FusedMatMulActivation <activation = "{name}"> (x, z)',
                "x: f[b, m, k]  z: f[k, n]",
                means=f"s = MatMul(x, z)  y = {name}(s)",
            )
            for name in ("Relu", "Tanh", "Sigmoid")
        ),
        Row(
            'y = com.microsoft.FusedGemm <$(activation = "Relu"|activation = "Tanh"|activation = "LeakyRelu", activation_alpha = 0.2|'
            'activation = "Elu", activation_alpha = 0.7), alpha = $(1.0|0.5), beta = $(1.0|0.25), transA = $(0|1)> (x, z$(|, w))',
            "x: f[M, M]  z: f[M, N]!  w: f[$(N|M, 1|1|M, N)]!",
        ),
        Row(
            "y = com.microsoft.FusedConv <kernel_shape = [2, 3], pads = [$(0|1), 1, 0, $(0|1)], strides = [$(1|2), $(1|2)], "
            '$(activation = "Relu"|activation = "Tanh"|activation = "LeakyRelu", activation_params = [0.1]|activation = "Clip",'
            ' activation_params = [-0.5, 0.5]|activation = "HardSigmoid", activation_params = [0.2, 0.4])> (x, w$(|, c))',
            "x: f[b, 3, 5, 6]  w: f[4, 3, 2, 3]!  c: f[4]!",
        ),
        Row(
            "y$(|, , , ysum) = com.microsoft.SkipLayerNormalization <epsilon = 0.001> (x, z, g$(|, c|, c, e|, , e))",
            "x: f[b, m, N]  z: f[$(b, m|m), N]  g: f[N]!  c: f[N]!  e: f[N]!",
            tolerance=1e-3,
        ),
        Row(
            "y$(|, , , ysum) = com.microsoft.SkipSimplifiedLayerNormalization <epsilon = 0.001> (x, z, g$(|, e))",
            "x: f[b, m, N]  z: f[b, m, N]  g: f[N]!  e: f[N]!",
            tolerance=1e-3,
        ),
        *(
            Row(
                f"y = {domain}SimplifiedLayerNormalization <axis = {axis}, epsilon = 0.001> (x, g)",
                "x: f[b, 1, N]  g: f[N]!",
                tolerance=1e-3,
                means=f"y = SimplifiedLayerNormalization <axis = {axis}, epsilon = 0.001> (x, g)",
            )
            for domain in ("", "com.microsoft.")
            for axis in (-1, 2)
        ),
        *(
            Row(
                f"y, yl$(|, ysum) = com.microsoft.EmbedLayerNormalization <epsilon = 0.001> ({words}, g, c$(|, m))",
                "t: i[b, m] < 9  s: i[b, m] < 2  w: f[9, N]!  p: f[7, N]!  u: f[2, N]!  g: f[N]!  c: f[N]!  m: bits[b, m]",
                tolerance=1e-3,
            )
            for words in ("t, s, w, p, u", "t, , w, p, ")
        ),
        Row(
            "y = com.microsoft.RotaryEmbedding <interleaved = $(0|1)> (x, p, c, s)",
            "x: f[b, $(2, 3|3), 8]  p: l[$(b, 3|1)] < 6  c: f[9, 4]!  s: f[9, 4]!",
        ),
        *(
            Row(
                f"y = com.microsoft.RotaryEmbedding <num_heads = 2, rotary_embedding_dim = {2 * half}> (x, p, c, s)",
                f"x: f[b, $(2, 3, 8|3, 16)]  p: l[$(b, 3|1)] < 6  c: f[9, {half}]!  s: f[9, {half}]!",
            )
            for half in (1, 2)
        ),
    ),
)

table(
    "microsoft_attention",
    (
        Row(
            "y = com.microsoft.Attention <num_heads = 2, unidirectional = $(0|1)$(|, scale = 0.3)> (x, w, c$(|, m))",
            "x: f[b, 5, 6]  w: f[6, 24]!  c: f[24]!  m: bits[b, 5]",
            tolerance=2e-3,
        ),
        Row(
            "y = com.microsoft.Attention <num_heads = 2, qkv_hidden_sizes = [8, 8, 12]> (x, w, c, , , $(|a))",
            "x: f[b, 5, 6]  w: f[6, 28]!  c: f[28]!  a: f[b, 2, 5, 5]",
        ),
        Row(
            "y, yp = com.microsoft.Attention <num_heads = 2, unidirectional = $(0|1)> (x, w, c, , p)",
            "x: f[b, L, 6]  w: f[6, 24]!  c: f[24]!  p: f[2, b, 2, P, 4]",
        ),
        Row(
            "y = com.microsoft.QAttention <num_heads = 2, unidirectional = $(0|1)> (x, w, c, s, t, $(|m), z$(|, v))",
            "x: u8[b, 5, 8]  w: weight8[8, 24]!!  c: f[24]!!  s: scale[]!!  t: scale[]!!  m: i[b] < 5  z: zero8[]!!  v: weight8[]!!",
            tolerance=1e-3,
            least=1,
        ),
        Row(
            "y = com.microsoft.MultiHeadAttention <num_heads = 2, unidirectional = $(0|1)$(|, scale = 0.2)> (q, k, v"
            "$(|, c|, c, m|, , m|, , , a))",
            "q: f[b, 4, 8]  k: f[b, 4, 8]  v: f[b, 4, 8]  c: f[24]!  m: bits[b, 4]  a: f[$(1|b), 2, 4, 4]",
            tolerance=2e-3,  # where all keys are masked, scores are rounded at 10000
        ),
        Row(
            "y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v)",
            "q: f[b, l, 8]  k: f[b, s, 8]  v: f[b, s, 12]",
        ),
        Row(
            "y, yk, yv = com.microsoft.MultiHeadAttention <num_heads = 2, unidirectional = $(0|1)> (q, k, v, , , , p, r)",
            "q: f[b, 1, 8]  k: f[b, 1, 8]  v: f[b, 1, 8]  p: f[b, 2, P, 4]  r: f[b, 2, P, 4]",
        ),
        *(
            Row(
                "y, yk, yv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2$(|, local_window_size = 3|"
                f", softcap = 4.0|, smooth_softmax = 1|, scale = 0.4){more})",
                "q: f[1, 2, 64]  k: f[1, 2, 32]  v: f[1, 2, 32]  p: f[1, 2, 5, 16]  r: f[1, 2, 5, 16]  u: f[2, 2, 128]"
                "  n: i[1]!! = 6  j: i[2]!! = 1  t: i[]!! = 7  o: i[]!! = 2  c: f[16, 8]!  s: f[16, 8]!",
                tolerance=1e-3,
            )
            for more in (
                "> (q, k, v, p, r, n, t",
                ", do_rotary = 1, rotary_interleaved = $(0|1)> (q, k, v, p, r, n, t, c, s",
                "> (u, , , , , j, o",
            )
        ),
    ),
)

table(
    "microsoft_bytes",
    (
        Row(
            "y = com.microsoft.QLinear$(Add|Mul)(x, s, p, z, t, q, r, o)",
            "x: u8[m, n]  s: scale[]!!  p: zero8[]!!  z: u8[$(m, n|n|1)]  t: scale[]!!  q: zero8[]!!  r: scale[]!!  o: zero8[]!!",
            tolerance=-1,
        ),
        Row(
            "y = com.microsoft.QLinear$(LeakyRelu <alpha = 0.1>|LeakyRelu|Sigmoid)(x, s, p, r, o)",
            "x: u8[m, n]  s: scale[]!!  p: zero8[]!!  r: scale[]!!  o: zero8[]!!",
            tolerance=-1,
        ),
        Row(
            "y = com.microsoft.QLinearSoftmax <axis = $(1|-1|0), opset = 13> (x, s, p, r, o)",
            "x: u8[m, n]  s: scale[]!!  p: zero8[]!!  r: f[]!! = 0.00390625  o: u8[]!! = 0",
            tolerance=-1,
        ),
        Row(
            "y = com.microsoft.QLinearWhere(c, x, s, p, z, t, q, r, o)",
            "c: b[m, n]  x: u8[$(m, n|n)]  s: scale[]!!  p: zero8[]!!  z: u8[m, n]  t: scale[]!!  q: zero8[]!!  r: scale[]!!  o: zero8[]!!",
            tolerance=-1,
        ),
        Row(
            "y = com.microsoft.QLinearConcat <axis = $(1|-1)> (r, o, x, s, p, z, t, q)",
            "r: scale[]!!  o: zero8[]!!  x: u8[m, n]  s: scale[]!!  p: zero8[]!!  z: u8[m, k]  t: scale[]!!  q: zero8[]!!",
            tolerance=-1,
        ),
        Row(
            "y = com.microsoft.QLinear$(GlobalAveragePool <channels_last = 0>|AveragePool <kernel_shape = [2, 3], count_include_pad = 0>|"
            "AveragePool <kernel_shape = [2, 2], pads = [1, 0, 1, 1], count_include_pad = 1>|AveragePool <kernel_shape = [3, 2],"
            " strides = [2, 2], ceil_mode = 1>)(x, s, p, r, o)",
            "x: u8[b, 3, 5, 6]  s: scale[]!!  p: zero8[]!!  r: scale[]!!  o: zero8[]!!",
            tolerance=-1,
        ),
        Row("y = com.microsoft.QuantizeLinear(x, s, p)", "x: f[m, n]  s: scale[]!  p: zero8[]!", tolerance=-1),
        Row("y = com.microsoft.DequantizeLinear <axis = 1> (x, s, p)", "x: u8[m, N]  s: scale[N]!  p: zero8[N]!"),
        Row(
            "y = com.microsoft.QGemm <transA = $(0|1), transB = $(0|1), alpha = $(1.0|0.5)> (x, s, p, w, t, v$(|, c|, c, r, o|, , r, o))",
            "x: u8[M, M]  s: scale[]!!  p: zero8[]!!  w: weight8[M, M]!!  t: scale[]!!  v: weight8[]!!"
            "  c: sums[M]!!  r: f[]!! = 0.5  o: zero8[]!!",
            tolerance=-1,
        ),
        Row(
            "y = com.microsoft.MatMulIntegerToFloat(x, w, s, t$(|, p|, p, v|, p, v, c))",
            "x: u8[$(b, |)m, K]  w: weight8[K, N]!!  s: scale[]!!  t: scale[$(|1|N)]!!  p: zero8[]!!  v: weight8[N]!!  c: f[N]!!",
        ),
        Row(
            "y = com.microsoft.DynamicQuantizeMatMul(x, w, t$(|, v|, v, c))",
            "x: f[$(b, |)m, K]  w: weight8[K, N]!!  t: scale[$(1|N)]!!  v: weight8[$(1|N)]!!  c: f[N]!!",
            tolerance=1e-3,
        ),
        Row(
            "y, yh, yc = com.microsoft.DynamicQuantizeLSTM <hidden_size = 4, direction = $('forward'|'reverse')>"
            " (x, w, r, $(|v), , $(|h), $(|k), $(|q), s, z, t, z)".replace("'", '"'),
            "x: f[m, b, K]  w: weight8[1, K, 16]!!  r: weight8[1, 4, 16]!!  v: f[1, 32]!!  h: f[1, b, 4]  k: f[1, b, 4]"
            "  q: f[1, 12]!!  s: scale[1]!!  z: weight8[1]!! = 0  t: scale[1]!!",
            tolerance=2e-2,  # a number that is half between two bytes
            least=1,
        ),
        Row(
            "y = com.microsoft.MatMulNBits <N = 9, K = 40, block_size = 16> (x, w, s$(|, z|, z, , c))",
            "x: f[b, m, 40]  w: u8[9, 3, 8]!!  s: scale[9, 3]!!  z: u8[9, 2]!!  c: f[9]!!",
        ),
        Row(
            "y = com.microsoft.MatMulNBits <N = 9, K = 32, block_size = 32, bits = 8> (x, w, s$(|, z|, , , c))",
            "x: f[m, 32]  w: u8[9, 1, 32]!!  s: scale[9, 1]!!  z: u8[9, 1]!!  c: f[9]!!",
            tolerance=1e-3,
        ),
        Row(
            "y = com.microsoft.GatherBlockQuantized <bits = 4, block_size = 16, gather_axis = 0, quantize_axis = 1> (x, i, s$(|, z))",
            "x: u8[7, 16]!!  i: l[m, n] < 7  s: scale[7, 2]!!  z: u8[7, 1]!!",
        ),
    ),
)
