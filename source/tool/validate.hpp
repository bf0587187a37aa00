// Checking outputs: a model against the reference, or ONNX test cases against their files and the reference.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "reference/output_comparison.hpp"
#include "tool/commands.hpp"
#include "tool/model.hpp"

namespace vkfuse::tool {

/// Idle: what came out is right, but all of it was computed on import, from constants of the file or from given values
/// that became constants. It says nothing about the device.
enum class Verdict : std::uint8_t { passed, failed, skipped, idle };

/// One output of a model, or of one of its parts.
struct OutputResult {
  std::string name;
  int part = 0;       ///< of a model that runs in parts, from 1 on; 0: of a whole model, or of the host
  int data_set = -1;  ///< of a case: which folder of data, from 0 on
  DType dtype = DType::f32;
  std::vector<std::int64_t> sizes;
  reference::OutputComparison found;
  std::vector<std::int64_t> worst;       ///< the position of the largest error / bound; empty without an error
  std::vector<std::int64_t> file_worst;  ///< the same of the file
  reference::TileMap tiles;              ///< empty if nothing is wrong
};

struct CaseResult {
  std::string name;
  Verdict verdict = Verdict::passed;
  std::string detail;  ///< the reason of a skip or failure, or what was compared
  int kernels = 0;
  int copies = 0;         ///< kernels that store an output which is a view of an input, or a constant
  bool is_known = false;  ///< no given value is left that a kernel could read: all are constants of the graph
  double seconds = 0;     ///< of compiling, running and comparing
  std::vector<OutputResult> outputs;
  int host_steps = 0;
  bool given = false;              ///< another program has computed the outputs, so that no kernel ran
  std::string not_referenced;      ///< why the reference says nothing of some outputs; empty if it has been evaluated
  std::vector<std::string> notes;  ///< what the file says and was ignored
  std::string beside_unfused;      ///< what became of the comparison with one kernel per op; empty: there was none

  /// The output whose error is the largest part of what the reference, or its file, allows; null where nothing was
  /// compared.
  [[nodiscard]] const OutputResult* worst_by_reference() const;
  [[nodiscard]] const OutputResult* worst_by_file() const;
};

struct ValidateOptions {
  bool fusion = true;
  Numerics numerics = Numerics::standard;
  std::uint64_t seed = 0;
  std::vector<std::string> without;
  std::string planner = "bytes";
  std::int64_t memory_budget = 0;  ///< of intermediate values, in bytes; 0: any number
  ModelOptions model;              ///< how models are read
  NamedInputs inputs;              ///< of a model, or in place of those of a data set; others are random
  /// Of a case, from compiling to comparing: the reference samples outputs, and stops, to keep it.
  std::optional<double> time_limit_s;
  /// For tests: may change what a part (0: of a whole model) has stored, before that is looked at.
  std::function<void(int part, Outputs& stored)> spoil;
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

/// A model or a case folder, with outputs that another program has computed: no device runs. They are NAME.npy or
/// NAME.pb in `outputs`, or in a folder of it that is named like the data set.
CaseResult validate_outputs(const std::filesystem::path& path, const std::filesystem::path& outputs,
                            const ValidateOptions& options);

/// A model, a case folder or a folder of case folders; `each` is called as results come in. An error
/// if the path is none of these.
Result<ValidateReport> validate_path(const Device& device, const std::filesystem::path& path,
                                     const ValidateOptions& options,
                                     const std::function<void(const CaseResult&)>& each);

/// The line of a case, wrapped at 80 columns, and below it a map of each output that is wrong.
std::string to_text(const CaseResult& result);
/// A page of its own: every case on every device, each output's largest error over its bound and where it is, and a map
/// of what is wrong.
std::string to_html(const std::vector<DeviceReport>& devices, const ValidateOptions& options);
/// An array with an object for every case on every device. Numbers that are not known are null.
std::string to_json(const std::vector<DeviceReport>& devices);

}  // namespace vkfuse::tool
