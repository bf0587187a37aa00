// Checking outputs: a model against the reference, or ONNX test cases against their files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tool/model.hpp"

namespace vkfuse::tool {

enum class Verdict : std::uint8_t { passed, failed, skipped };

struct CaseResult {
  std::string name;
  Verdict verdict = Verdict::passed;
  std::string detail;           ///< the reason of a skip or failure, or what was compared
  double max_ratio = 0;         ///< of error over bound
  std::int64_t unbounded = 0;   ///< elements whose error has no bound
  int kernels = 0;
  int host_steps = 0;
};

struct ValidateOptions {
  bool fusion = true;
  Numerics numerics = Numerics::standard;
  std::uint64_t seed = 0;
  bool host = true;  ///< operators may run on the host
};

struct ValidateReport {
  std::vector<CaseResult> cases;
  [[nodiscard]] int count(Verdict verdict) const;
};

/// Random inputs through the device and the reference.
CaseResult validate_model(const Device& device, const std::filesystem::path& path, const ValidateOptions& options);

/// One folder in the ONNX layout: model.onnx and test_data_set_*/{input,output}_*.pb.
CaseResult validate_case(const Device& device, const std::filesystem::path& folder, const ValidateOptions& options);

/// A model, a case folder or a folder of case folders; `each` is called as results come in. An error
/// if the path is none of these.
Result<ValidateReport> validate_path(const Device& device, const std::filesystem::path& path, const ValidateOptions& options,
                                     const std::function<void(const CaseResult&)>& each);

}  // namespace vkfuse::tool
