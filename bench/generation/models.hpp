// Language models of random weights that the suite of generation times: sizes of known ones, and the step of each.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "vkfuse/vkfuse.hpp"

namespace vkfuse::bench {

struct LanguageModel {
  std::string_view name;
  std::int64_t layers = 0, width = 0, heads = 0, key_heads = 0, head_size = 128, inner = 0, vocabulary = 0;
  std::int64_t experts = 0, chosen = 0;  ///< of a mixture, whose networks have `inner` hidden units each
  bool norms_heads = false;              ///< of queries and keys, as Qwen3
  bool norms_results = false;            ///< of attention and networks, as Gemma 2
  bool gelu = false;                     ///< in place of silu
  double softcap = 0, last_softcap = 0;  ///< of scores and of logits; 0: none
};
std::span<const LanguageModel> language_models();

/// How matrices are stored. f16; int8 with a scale for each row; int4 with one for 128 neighbours; float8_e4m3fn with
/// one for each row; MXFP4: float4_e2m1fn with a power of two for 32.
enum class WeightFormat : std::uint8_t { f16, int8, int4, float8, mxfp4 };
inline constexpr std::string_view kWeightFormats[] = {"f16", "int8", "int4", "float8", "mxfp4"};

/// Elements that make numbers of the size that trained weights have.
enum class Filling : std::uint8_t {
  normal,      ///< of mean 0 and deviation `value`
  near_one,    ///< scales of norms
  any_bits,    ///< all bits random
  no_nan,      ///< the same of codes of float8_e4m3fn
  constant,    ///< `value`
  cosine,      ///< of the angles of rotary embeddings [positions, pairs]
  sine,        ///< likewise
  cache,       ///< written by steps before anything reads it
  positioned,  ///< tokens and where they begin: of each step
};
struct ModelInput {
  DType dtype = DType::f16;
  Shape shape;
  Filling filling = Filling::normal;
  double value = 0;
  bool read_whole = true;  ///< by each step, and not a few rows of it
};

/// A step: `count` new tokens of each of some sequences.
struct StepSizes {
  std::int64_t sequences = 1, count = 1, capacity = 2048;
};
struct ModelStep {
  std::vector<Tensor> outputs;
  std::vector<std::string> names;  ///< of outputs: "token" i32 [sequences], "start'", and caches as "2 keys'"
  std::map<std::string, ModelInput> inputs;
};
/// Its inputs are "tokens" i32 [sequences, count], "start" i32 [sequences], weights, tables and caches.
ModelStep model_step(const LanguageModel& model, WeightFormat weights, const StepSizes& sizes);

std::uint64_t bytes_of(const ModelInput& input);

}  // namespace vkfuse::bench
