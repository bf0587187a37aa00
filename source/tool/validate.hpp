// Checking outputs: a model against the reference, or ONNX test cases against their files.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "reference/reference.hpp"
#include "tool/model.hpp"

namespace vkfuse::tool {

enum class Verdict : std::uint8_t { passed, failed, skipped };

/// Where wrong elements of an output lie: its last axis across, all others down, in tiles.
struct TileMap {
  static constexpr std::int64_t kMost = 32;  ///< tiles across and down
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::int64_t> compared;  ///< elements of each tile, row by row
  std::vector<std::int64_t> wrong;     ///< how many of them are wrong
};

/// One output of a model against the reference.
struct OutputResult {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  reference::Comparison found;
  std::int64_t unbounded = 0;           ///< elements whose error has no bound
  std::vector<std::int64_t> worst;      ///< the position of the largest error / bound, or of a wrong element; empty without an error
  TileMap tiles;                        ///< empty if nothing is wrong
};

struct CaseResult {
  std::string name;
  Verdict verdict = Verdict::passed;
  std::string detail;           ///< the reason of a skip or failure, or what was compared
  double max_ratio = 0;         ///< of error over bound
  std::int64_t unbounded = 0;   ///< elements whose error has no bound
  int kernels = 0;
  double seconds = 0;           ///< of compiling, running and comparing
  std::vector<OutputResult> outputs;  ///< of a model; of a case of files, those that no file is there for
  int host_steps = 0;
  std::string beside_unfused;  ///< what became of the comparison of elements without a bound with one kernel per op; empty: there was none
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

/// What one device did.
struct DeviceReport {
  DeviceDescription device;
  std::string refused;  ///< why it could not be opened; empty if it could
  ValidateReport report;
};

/// Random inputs through the device and the reference.
CaseResult validate_model(const Device& device, const std::filesystem::path& path, const ValidateOptions& options);

/// One folder in the ONNX layout: model.onnx and test_data_set_*/{input,output}_*.pb.
CaseResult validate_case(const Device& device, const std::filesystem::path& folder, const ValidateOptions& options);

/// Where a bound has grown past all numbers: whether these elements are off by more than four times what the same graph is off by with one
/// kernel per op, beside the double-precision reference. One sentence, or nothing; nothing too of fewer than 64 such elements.
std::string compare_with_unfused(const HostTensor& got, const HostTensor& unfused, const reference::Column& column, const std::vector<std::int64_t>& indices);

/// A model, a case folder or a folder of case folders; `each` is called as results come in. An error
/// if the path is none of these.
Result<ValidateReport> validate_path(const Device& device, const std::filesystem::path& path, const ValidateOptions& options,
                                     const std::function<void(const CaseResult&)>& each);

/// A page of its own: every case on every device, each output's largest error over its bound and where it is, and a map of
/// what is wrong.
std::string to_html(const std::vector<DeviceReport>& devices, const ValidateOptions& options);
/// An array with an object for every case on every device.
std::string to_json(const std::vector<DeviceReport>& devices);

}  // namespace vkfuse::tool
