// Reports as the benchmark writes them, made up for tests.
#pragma once

#include <nlohmann/json.hpp>

#include "ops/op.hpp"

namespace vkfuse::bench {

/// Times around `median`, up to 5 % away, as quiet machines have them.
inline nlohmann::json noisy_samples(double median, std::uint64_t seed, int count = 41) {
  nlohmann::json samples = nlohmann::json::array();
  for (int i = 0; i < count; ++i) {
    const double spread = ops::philox(seed, static_cast<std::uint64_t>(i)) * 0x1p-32 - 0.5;
    samples.push_back(median * (1 + 0.1 * spread));
  }
  return samples;
}

inline nlohmann::json measured_row(const std::string& name, double us, std::uint64_t seed) {
  return {{"name", name},
          {"case", name + ":f32:4096"},
          {"group", "chain"},
          {"dtype", "f32"},
          {"size", "[4096]"},
          {"outcome", "measured"},
          {"detail", ""},
          {"bytes", 32768},
          {"copy_bytes", 32768},
          {"fused_us", us},
          {"fused_p10", us * 0.96},
          {"fused_p90", us * 1.04},
          {"fused_n", 41},
          {"copy_us", us * 0.9},
          {"unfused_us", 3 * us},
          {"framework_us", 2 * us},
          {"kernels_fused", 1},
          {"kernels_unfused", 3},
          {"kernels_framework", 2},
          {"max_error_over_bound", 0.5},
          {"samples", {{"fused", noisy_samples(us, seed)}}}};
}

inline nlohmann::json report_of(nlohmann::json rows, const std::string& device = "a device") {
  return {{"environment", {{"device", device}, {"driver", "a driver"}, {"suite", "quick"}}},
          {"rows", std::move(rows)},
          {"complete", true}};
}

}  // namespace vkfuse::bench
