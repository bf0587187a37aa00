// Blocks of models as kernels: on a discrete GPU with 48 KiB of shared memory, n contractions with what stands between
// them are n kernels, an attention counting as one.
#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "golden/targets.hpp"
#include "kernel/kernel.hpp"
#include "passes/passes.hpp"
#include "plan/plan.hpp"
#include "support/compare.hpp"
#include "templates/lowering.hpp"
#include "templates/planning.hpp"
#include "vkfuse/composites.hpp"
#include "vkfuse/contractions.hpp"

namespace vkfuse::test {
namespace {

struct Kernels {
  std::vector<std::string> kinds;
  std::int64_t arena_bytes = 0;
  std::string text;
};

Kernels kernels_of(const ir::Graph& graph, const Target& target = discrete_gpu()) {
  const ir::Graph prepared = must(passes::run_pipeline(graph));
  const plan::Plan made = must(plan::make_plan(prepared, target));
  const plan::Plan unfused = must(plan::make_plan(prepared, target, {false}));
  const SymbolValues symbols = schedule::representative_symbols(prepared);
  const auto steps = must(plan::schedule_all(made, symbols));
  Kernels kernels;
  for (const plan::ScheduledKernel& step : steps) kernels.kinds.emplace_back(schedule::name_of(step.schedule.kind()));
  kernels.arena_bytes = must(plan::plan_memory(made, symbols, steps)).arena_bytes;
  kernels.text = must(plan::to_text(made, unfused, symbols));
  return kernels;
}

using Kinds = std::vector<std::string>;

Tensor input(const char* name, Shape shape) { return Tensor::input(name, DType::f16, std::move(shape)); }

Tensor weights(const char* name, std::int64_t in, std::int64_t out) { return input(name, {in, out}); }

/// x * cos + (-x of the second half, x of the first) * sin, along the last axis.
Tensor rotary(const Tensor& x, const Tensor& cosine, const Tensor& sine, std::int64_t size) {
  const Tensor turned = concat({-x.slice(-1, size / 2, size), x.slice(-1, 0, size / 2)}, -1);
  return x * cosine + turned * sine;
}

constexpr std::int64_t kLength = 2048, kHeads = 32, kSize = 128, kWidth = kHeads * kSize;

/// One third of [length, 3, heads, size] as [1, heads, length, size].
Tensor third(const Tensor& qkv, std::int64_t which) { return qkv.select(1, which).permute({1, 0, 2}).unsqueeze(0); }

/// The contractions are five kernels with all that stands between them: norms in the loads of the products after them,
/// their scale on the results; the rotary embedding in the loads of the attention.
TEST(Blocks, ALlamaBlockIsFiveKernels) {
  constexpr std::int64_t kHidden = 11008;
  const Tensor x = input("x", {kLength, kWidth});
  const Tensor normal = rms_normalize(x, {1}, 1e-5) * input("norm1", {kWidth});
  const Tensor qkv = matmul(normal, weights("wqkv", kWidth, 3 * kWidth)).reshape({kLength, 3, kHeads, kSize});
  const Tensor cosine = input("cosine", {kLength, kSize});
  const Tensor sine = input("sine", {kLength, kSize});
  const Tensor looked = attention(rotary(third(qkv, 0), cosine, sine, kSize),
                                  rotary(third(qkv, 1), cosine, sine, kSize), third(qkv, 2), {.causal = true});
  const Tensor joined = looked.squeeze(0).permute({1, 0, 2}).reshape({kLength, kWidth});
  const Tensor residual = matmul(joined, weights("wo", kWidth, kWidth)) + x;
  const Tensor second = rms_normalize(residual, {1}, 1e-5) * input("norm2", {kWidth});
  const Tensor hidden =
      silu(matmul(second, weights("gate", kWidth, kHidden))) * matmul(second, weights("up", kWidth, kHidden));
  const Tensor y = matmul(hidden, weights("down", kHidden, kWidth)) + residual;
  const Kernels kernels = kernels_of(graph_of({y}));
  EXPECT_EQ(kernels.kinds, (Kinds{"matmul", "attention", "matmul", "matmul", "matmul"})) << kernels.text;
}

/// Written as three products, where a launch costs as much as it does on every device: their weights are read side by
/// side, and the attention takes its parts of what they make.
TEST(Blocks, QueriesKeysAndValuesAreOneProduct) {
  constexpr std::int64_t kRows = 384, kUnits = 768, kParts = 12;
  const Tensor x = input("x", {kRows, kUnits});
  const auto part = [&](const char* w) {
    return matmul(x, weights(w, kUnits, kUnits))
        .reshape({kRows, kParts, kUnits / kParts})
        .permute({1, 0, 2})
        .unsqueeze(0);
  };
  const Tensor looked = attention(part("q"), part("k"), part("v"));
  const Kernels kernels = kernels_of(
      graph_of({matmul(looked.squeeze(0).permute({1, 0, 2}).reshape({kRows, kUnits}), weights("o", kUnits, kUnits))}),
      discrete_gpu_with_matrices());
  EXPECT_EQ(kernels.kinds, (Kinds{"matmul", "attention", "matmul"})) << kernels.text;
}

/// A literal may be the identity of a reduction of nothing: it is no constant that words are made of.
TEST(Blocks, AFoldOfNothingBesideAFactor) {
  const ir::Graph graph = must(passes::run_pipeline(must(ir::parse(R"(graph "g" {
  %0 = input "x" : f16[4095, 2048]
  %1 = input "e" : f16[0, 2048]
  %2 = reduce_sum axes=[0] %1 : f16[2048]
  %3 = reshape %2 : f16[1, 2048]
  %4 = concat axis=0 %3 %0 : f16[4096, 2048]
  %5 = input "a" : f16[2048, 4096]
  %6 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %5 %4 : f16[2048, 2048]
  output "y" = %6
})"))));
  const plan::Plan made = must(plan::make_plan(graph, discrete_gpu_with_matrices()));
  const auto steps = must(plan::schedule_all(made, {}));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_FALSE(
        must(lowering::lower({made.graph, made.steps[i].segment, steps[i].loops, steps[i].schedule, made.target, {}}))
            .empty());
  }
}

/// A norm after the residual: what it makes is read twice, by a product and as the next residual.
TEST(Blocks, ABertBlockIsFiveKernelsAndTwoNorms) {
  constexpr std::int64_t kHidden = 4 * kWidth;
  const auto linear = [](const Tensor& in, const char* w, const char* b, std::int64_t from, std::int64_t to) {
    return matmul(in, weights(w, from, to)) + input(b, {to});
  };
  const auto norm = [](const Tensor& in, const char* scale, const char* shift) {
    return normalize(in, {1}, 1e-5) * input(scale, {kWidth}) + input(shift, {kWidth});
  };
  const Tensor x = input("x", {kLength, kWidth});
  const Tensor qkv = linear(x, "wqkv", "bqkv", kWidth, 3 * kWidth).reshape({kLength, 3, kHeads, kSize});
  const Tensor looked = attention(third(qkv, 0), third(qkv, 1), third(qkv, 2));
  const Tensor first =
      norm(linear(looked.squeeze(0).permute({1, 0, 2}).reshape({kLength, kWidth}), "wo", "bo", kWidth, kWidth) + x,
           "s1", "t1");
  const Tensor grown = linear(first, "w1", "b1", kWidth, kHidden);
  const Tensor hidden = grown * 0.5 * (erf(grown * 0.7071067811865476) + 1.0);
  const Tensor y = norm(linear(hidden, "w2", "b2", kHidden, kWidth) + first, "s2", "t2");
  const Kernels kernels = kernels_of(graph_of({y}), discrete_gpu_with_matrices());
  EXPECT_EQ(kernels.kinds, (Kinds{"matmul", "attention", "matmul", "reduction", "matmul", "matmul", "reduction"}))
      << kernels.text;
}

/// BERT-base where launches are dear: as few kernels as contractions. The products leave statistics of their rows in
/// parts, and who reads the norm, a product or the residual of one, joins them.
TEST(Blocks, ABertBlockIsFiveKernelsWhereLaunchesAreDear) {
  constexpr std::int64_t kRows = 384, kUnits = 768, kHidden = 3072, kParts = 12;
  int weight = 0;
  const auto linear = [&](const Tensor& in, std::int64_t from, std::int64_t to) {
    const int number = weight++;
    return matmul(in, weights(fmt::format("w{}", number).c_str(), from, to)) +
           input(fmt::format("b{}", number).c_str(), {to});
  };
  const auto norm = [&](const Tensor& in) {
    const int number = weight++;
    return normalize(in, {1}, 1e-5) * input(fmt::format("s{}", number).c_str(), {kUnits}) +
           input(fmt::format("t{}", number).c_str(), {kUnits});
  };
  const auto block = [&](const Tensor& x) {
    const Tensor qkv = linear(x, kUnits, 3 * kUnits).reshape({kRows, 3, kParts, kUnits / kParts});
    const Tensor looked = attention(third(qkv, 0), third(qkv, 1), third(qkv, 2));
    const Tensor first =
        norm(linear(looked.squeeze(0).permute({1, 0, 2}).reshape({kRows, kUnits}), kUnits, kUnits) + x);
    const Tensor grown = linear(first, kUnits, kHidden);
    return norm(linear(grown * 0.5 * (erf(grown * 0.7071067811865476) + 1.0), kHidden, kUnits) + first);
  };
  Target dear = discrete_gpu_with_matrices();
  dear.costs = schedule::costs_of(dear);
  dear.costs->launch_us = 40;
  const Kernels kernels =
      kernels_of(graph_of({linear(block(block(input("x", {kRows, kUnits}))), kUnits, kUnits)}), dear);
  EXPECT_EQ(kernels.kinds, (Kinds{"matmul", "attention", "matmul", "matmul", "matmul", "matmul", "attention", "matmul",
                                  "matmul", "matmul", "matmul"}))
      << kernels.text;
}

TEST(Blocks, AProductWithWhatStandsAroundItIsOneKernel) {
  const Tensor a = input("a", {512, 1024});
  const Tensor b = weights("b", 1024, 768);
  const Tensor bias = input("bias", {768});
  const std::pair<const char*, Tensor> graphs[] = {
      {"bias and activation", relu(matmul(a, b) + bias)},
      {"an activation before", matmul(relu(a), b)},
      {"a residual", matmul(a, b) + input("residual", {512, 768})},
      {"a cast before and after", matmul(a.cast(DType::f32), b.cast(DType::f32)).cast(DType::f16)},
      {"a transposed result", matmul(a, b).transpose() * 2.0},
      {"a norm before", matmul(rms_normalize(a, {1}, 1e-5) * input("weight", {1024}), b)},
      {"a gated pair", silu(matmul(a, b)) * matmul(a, weights("up", 1024, 768))},
      {"quantised weights",
       matmul(a, Tensor::input("q", DType::i8, {1024, 768}).cast(DType::f16) * input("scale", {768}))},
  };
  for (const auto& [name, tensor] : graphs) {
    const Kernels kernels = kernels_of(graph_of({tensor}));
    EXPECT_EQ(kernels.kinds, Kinds{"matmul"}) << name << "\n" << kernels.text;
  }
}

/// Scores of 4 x 32 heads over 4096 positions would take 4 GiB. Where tiles are multiplied as one.
TEST(Blocks, AttentionOfEveryFormIsOneKernelWithoutScores) {
  const auto form = [](const AttentionOptions& options) {
    const Shape shape = {4, 32, 4096, 128};
    return attention(input("q", shape), input("k", shape), input("v", shape), options);
  };
  const std::pair<const char*, AttentionOptions> forms[] = {
      {"plain", {}},
      {"causal", {.causal = true}},
      {"softcap", {.softcap = 30}},
      {"bias", {.bias = input("bias", {32, 4096, 4096})}},
      {"ALiBi", {.alibi_slopes = input("slopes", {32})}},
      {"window", {.causal = true, .window_before = 512}},
  };
  for (const Target& target : {discrete_gpu_with_matrices(), discrete_gpu_with_matrix_products()}) {
    for (const auto& [name, options] : forms) {
      const Kernels kernels = kernels_of(graph_of({form(options)}), target);
      EXPECT_EQ(kernels.kinds, Kinds{"attention"}) << name << "\n" << kernels.text;
      EXPECT_EQ(kernels.arena_bytes, 0) << name;
    }
  }
}

/// What attention over parts of the keys is put together by, and what a gradient is computed from. In heads that are as
/// large as there are keys, too, where both products have as many elements.
TEST(Blocks, AttentionAndTheLogarithmOfItsSumsAreOneKernel) {
  for (const Shape& shape : {Shape{4, 32, 4096, 128}, Shape{4, 32, 128, 128}}) {
    const Tensor q = input("q", shape), k = input("k", shape), v = input("v", shape);
    for (const bool causal : {false, true}) {
      const AttentionParts parts = attention_and_log_sum_exp(q, k, v, {.causal = causal, .softmax_dtype = DType::f32});
      const ir::Graph graph = graph_of({parts.result, parts.log_sum_exp});
      for (const Target& target : {discrete_gpu_with_matrices(), discrete_gpu_with_matrix_products()}) {
        const Kernels kernels = kernels_of(graph, target);
        EXPECT_EQ(kernels.kinds, Kinds{"attention"}) << kernels.text;
        EXPECT_EQ(kernels.arena_bytes, 0);
      }
    }
  }
}

/// Frameworks compute the softmax in f32 and round its weights: they are rounded before they are divided by their sum.
TEST(Blocks, AttentionWhoseSoftmaxIsWiderIsOneKernelWithoutScores) {
  const Shape shape = {4, 32, 4096, 128};
  const Tensor q = input("q", shape), k = input("k", shape), v = input("v", shape);
  const Tensor is_later = gt(Tensor::iota(DType::i64, {1, 4096}, 1), Tensor::iota(DType::i64, {4096, 1}, 0));
  const Tensor scores = matmul(q, k.transpose()) * 0.088;
  const Tensor masked = select(is_later, Tensor::scalar(DType::f16, -65504), scores);
  for (const Tensor& of : {scores, masked}) {
    const Tensor weights = softmax(of.cast(DType::f32), -1).cast(DType::f16);
    for (const Target& target : {discrete_gpu_with_matrices(), discrete_gpu_with_matrix_products()}) {
      const Kernels kernels = kernels_of(graph_of({matmul(weights, v)}), target);
      EXPECT_EQ(kernels.kinds, Kinds{"attention"}) << kernels.text;
      EXPECT_EQ(kernels.arena_bytes, 0);
    }
  }
}

/// On ordinary threads, too, where they have registers for 8 x 8 scores each. Those with registers for 4 x 4 wait for
/// shared memory longer than storing scores takes, unless most of them are masked.
TEST(Blocks, AttentionByThreadsStoresScoresWhereRegistersAreFew) {
  Target wide = discrete_gpu_with_measured_costs();
  wide.tiers[static_cast<std::size_t>(FeatureTier::cooperative_matrix)] =
      wide.tiers[static_cast<std::size_t>(FeatureTier::cooperative_matrix2)] = false;
  Target small = wide;
  small.caps.registers.per_thread = 128;
  const auto form = [&](const AttentionOptions& options, const Target& target) {
    const Shape shape = {2, 32, 4096, 128};
    return kernels_of(graph_of({attention(input("q", shape), input("k", shape), input("v", shape), options)}), target);
  };
  const std::tuple<const char*, AttentionOptions, bool> forms[] = {
      {"plain", {}, true},
      {"softcap", {.softcap = 30}, true},
      {"causal", {.causal = true}, false},
      {"window", {.causal = true, .window_before = 512}, false}};
  for (const auto& [name, options, stored] : forms) {
    const Kernels kept = form(options, wide), few = form(options, small);
    EXPECT_EQ(kept.kinds, Kinds{"attention"}) << name << "\n" << kept.text;
    EXPECT_EQ(kept.arena_bytes, 0) << name;
    EXPECT_EQ(few.kinds, stored ? (Kinds{"matmul", "reduction", "matmul"}) : Kinds{"attention"}) << name << "\n"
                                                                                                 << few.text;
  }
}

/// Where a row of a table lies is loaded before the row is, also where rows are loaded ahead of what they are for.
TEST(Blocks, RowsOfTablesStandBeforeAProductAndAreAddedToIt) {
  const auto places = [](const char* name) { return Tensor::input(name, DType::i32, {2048}); };
  const Tensor y = matmul(input("table", {500, 1024}).gather(places("ids"), 0), weights("w", 1024, 1024)) +
                   input("positions", {3000, 1024}).gather(places("places"), 0);
  const ir::Graph prepared = must(passes::run_pipeline(graph_of({y})));
  for (const Target& target : {discrete_gpu(), discrete_gpu_with_matrices()}) {
    const plan::Plan made = must(plan::make_plan(prepared, target));
    const auto steps = must(plan::schedule_all(made, {}));
    ASSERT_EQ(steps.size(), 1U);
    EXPECT_EQ(steps[0].schedule.kind(), schedule::Template::matmul);
    EXPECT_FALSE(
        must(lowering::lower({made.graph, made.steps[0].segment, steps[0].loops, steps[0].schedule, target, {}}))
            .empty());
  }
}

/// What is measured beside the model's choice: each tile is the one that was asked for, or, where a device's limits
/// forbid that, the model's own.
TEST(Blocks, AnAttentionHasTheTileThatATuningNames) {
  const auto input = [](const char* name, std::int64_t rows) {
    return Tensor::input(name, DType::f16, {2, 8, rows, 64});
  };
  const ir::Graph prepared = must(passes::run_pipeline(
      graph_of({attention(input("q", 2048), input("k", 2048), input("v", 2048), {.causal = true})})));
  for (const Target& target : {discrete_gpu(), discrete_gpu_with_matrices(), discrete_gpu_with_matrix_products()}) {
    const plan::Plan made = must(plan::make_plan(prepared, target));
    ASSERT_EQ(made.steps.size(), 1U);
    const segment::Loops loops = must(segment::build_loops(made.graph, made.steps[0].segment, {}));
    const schedule::Schedule standard = must(schedule::best(made.graph, loops, target));
    ASSERT_EQ(standard.kind(), schedule::Template::attention);
    EXPECT_EQ(standard.as<schedule::AttentionParams>().cooperative() != nullptr,
              target.has(FeatureTier::cooperative_matrix));
    int lanes = 0, units = 0;
    for (const schedule::Tuning& tuning : schedule::tunings_near(standard, target.caps)) {
      const schedule::AttentionShape& asked = *tuning.attention;
      const schedule::Schedule tuned = must(schedule::best(made.graph, loops, target, tuning));
      const schedule::AttentionParams& tile = tuned.as<schedule::AttentionParams>();
      ASSERT_EQ(tuned.kind(), schedule::Template::attention);
      if (asked.subgroups > 0) {
        units += tile.cooperative() && tile.cooperative()->subgroups == asked.subgroups &&
                         tile.cooperative()->key_fragments == asked.key_fragments &&
                         tile.cooperative()->pipelined_scores == asked.pipelined_scores
                     ? 1
                     : 0;
      } else {
        EXPECT_EQ(tile.cooperative(), nullptr);
        lanes += tile.simt()->threads_m == asked.threads_m && tile.simt()->threads_k == asked.threads_k &&
                         tile.simt()->rows == asked.rows && tile.simt()->keys == asked.keys &&
                         (tile.simt()->slice != 0) == asked.slices
                     ? 1
                     : 0;
      }
      const segment::Loops run = schedule::scheduled_loops(made.graph, loops, tuned);
      EXPECT_FALSE(must(lowering::lower({made.graph, made.steps[0].segment, run, tuned, target, {}})).empty())
          << schedule::to_text(tuning);
    }
    EXPECT_GE(lanes, 40);
    EXPECT_EQ(units, target.has(FeatureTier::cooperative_matrix) ? 12 : 0);  // all fit
  }
}

/// A capped score is counted in powers of 2 where its exponential alone is taken: what compares it, or takes more of it
/// than that, wants its number.
TEST(Blocks, ACappedScoreThatSomethingElseReadsIsItself) {
  const Tensor q = input("q", {2, 8, 1024, 64}), k = input("k", {2, 8, 1024, 64}), v = input("v", {2, 8, 1024, 64});
  const auto scalar = [](double value) { return Tensor::scalar(DType::f16, value); };
  const double nothing = -std::numeric_limits<double>::infinity();
  const Tensor capped = tanh(matmul(q, k.transpose()) / 50.0) * 50.0;
  const Tensor mask = Tensor::input("mask", DType::boolean, {1024, 1024});
  const Tensor kept = select(Tensor::apply("lt", {capped, scalar(3)}), capped, scalar(nothing));
  const std::tuple<const char*, Tensor, bool> all[] = {
      {"plain", softmax(capped), true},
      {"masked", softmax(select(mask, capped, scalar(nothing))), true},
      {"masked twice", softmax(select(mask, select(mask.transpose(), capped, scalar(nothing)), scalar(nothing))), true},
      {"compared", softmax(kept), false},
      {"compared behind a mask", softmax(select(mask, kept, scalar(nothing))), false},
      {"a weight of what is small", select(Tensor::apply("lt", {capped, scalar(3)}), softmax(capped), scalar(0)),
       false}};
  for (const auto& [name, weights, is_capped] : all) {
    const ir::Graph prepared = must(passes::run_pipeline(graph_of({matmul(weights, v)})));
    const Target target = discrete_gpu_with_whole_tiles();
    const plan::Plan made = must(plan::make_plan(prepared, target));
    std::string text;
    const auto steps = must(plan::schedule_all(made, {}));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const segment::Loops run = schedule::scheduled_loops(made.graph, steps[i].loops, steps[i].schedule);
      for (const lowering::Kernel& kernel :
           must(lowering::lower({made.graph, made.steps[i].segment, run, steps[i].schedule, target, {}})))
        text += kernel.glsl;
    }
    EXPECT_EQ(text.find("f16_capped(") != std::string::npos, is_capped) << name << text;
  }
}

TEST(Blocks, GroupedHeadsShareTheirKeys) {
  const Tensor y = attention(input("q", {4, 16, 1200, 64}), input("k", {4, 4, 2000, 64}), input("v", {4, 4, 2000, 80}));
  const Kernels kernels = kernels_of(graph_of({y}), discrete_gpu_with_matrices());
  EXPECT_EQ(kernels.kinds, Kinds{"attention"}) << kernels.text;
}

/// Matrix units do one product of weights of four bits at a time: a gate is two kernels, and what they share is
/// computed in both. Where there are no such units, threads multiply.
TEST(Blocks, AGateOfWeightsOfFourBitsIsOneKernelWithMatrixUnits) {
  const auto product = [](const char* name, const Tensor& x) {
    const Tensor bytes = Tensor::input(name, DType::u8, {14336, 2048});
    const Tensor scale = Tensor::input(std::string(name) + "_scale", DType::f16, {14336, 32, 1});
    const Tensor numbers = unpack_int4(bytes, false).cast(DType::f16) - 8;
    return matmul((numbers.reshape({14336, 32, 128}) * scale).reshape({14336, 4096}), x);
  };
  const Tensor x = Tensor::input("x", DType::f16, {4096}) * Tensor::input("norm", DType::f16, {4096});
  const ir::Graph graph = graph_of({silu(product("gate", x)) * product("up", x)});
  const ir::Graph prepared = must(passes::run_pipeline(graph));
  const auto packed_steps = [&](const Target& target) {
    const plan::Plan made = must(plan::make_plan(prepared, target));
    std::vector<bool> packed;
    for (const plan::ScheduledKernel& step : must(plan::schedule_all(made, {}))) {
      const auto* params = step.schedule.get_if<schedule::ReductionParams>();
      packed.push_back(params != nullptr && params->packed.has_value());
    }
    return packed;
  };
  Target target = discrete_gpu_with_measured_costs();
  EXPECT_EQ(packed_steps(target), (std::vector<bool>{true}));
  target.caps.matrix.sub_byte.reset();
  const std::vector<bool> packed = packed_steps(target);
  EXPECT_EQ(std::count(packed.begin(), packed.end(), true), 0);
}

/// Of several vectors, a matrix that no cache keeps is read once for all of them, and not by a kernel of rows for each.
TEST(Blocks, AMatrixTimesSeveralVectorsIsReadOnce) {
  const Tensor w = Tensor::input("w", DType::f16, {14336, 4096});
  const auto kinds = [&](std::int64_t vectors) {
    const Tensor x = Tensor::input("x", DType::f16, {vectors, 4096});
    return kernels_of(graph_of({matmul(x, w.permute({1, 0}))}), discrete_gpu_with_measured_costs()).kinds;
  };
  EXPECT_EQ(kinds(1), Kinds{"reduction"});
  EXPECT_EQ(kinds(4), Kinds{"matmul"});
}

}  // namespace
}  // namespace vkfuse::test
