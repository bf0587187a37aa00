#include "tool/validation.hpp"

#include <algorithm>

namespace vkfuse::tool {

namespace {

/// Whether the graph reads no input, and the file states none but those that have become constants.
bool knows_all(const Model& model) {
  const auto is_constant = [&](const std::string& name) {
    return std::find(model.constants.begin(), model.constants.end(), name) != model.constants.end();
  };
  return model.graph.inputs().empty() && std::all_of(model.unread.begin(), model.unread.end(), is_constant);
}

std::string kernels_text(const CaseResult& result) {
  std::string text = fmt::format("{} kernel{}", result.kernels, result.kernels == 1 ? "" : "s");
  if (result.copies > 0) text += fmt::format(" and {} {}", result.copies, result.copies == 1 ? "copy" : "copies");
  if (result.host_steps > 0)
    text += fmt::format(", {} step{} of the host", result.host_steps, result.host_steps == 1 ? "" : "s");
  return text;
}

/// "0.12 of 'y' at [1, 2]"; no error has no position.
std::string ratio_at(double ratio, const OutputResult& output, const std::vector<std::int64_t>& position) {
  std::string text = fmt::format("{:.3g}", ratio);
  if (ratio > 0) text += fmt::format(" of '{}' at [{}]", output.name, fmt::join(position, ", "));
  return text;
}

/// Whether a comparison says nothing about the device. An empty output is right wherever its shape is.
bool is_idle(const CaseResult& result) {
  const auto is_empty = [](const OutputResult& output) {
    return std::find(output.sizes.begin(), output.sizes.end(), 0) != output.sizes.end();
  };
  if (result.given || result.kernels > 0 || result.host_steps > 0) return false;
  const bool has_elements = !std::all_of(result.outputs.begin(), result.outputs.end(), is_empty);
  return has_elements && (result.is_known || result.copies == 0);
}

/// Elements of all outputs, by what they were compared with.
struct ElementCounts {
  std::int64_t elements = 0;  ///< that the reference could have looked at: those of the host left out
  std::int64_t referenced = 0;
  std::int64_t by_file_alone = 0;
  std::int64_t unbounded = 0;
  std::int64_t loose = 0;
};

ElementCounts count_elements(const CaseResult& result) {
  ElementCounts counts;
  for (const OutputResult& output : result.outputs) {
    std::int64_t count = 1;
    for (const std::int64_t size : output.sizes) count *= size;
    const bool is_of_host = result.host_steps > 0 && output.part == 0;
    counts.elements += is_of_host ? 0 : count;
    counts.referenced += output.found.referenced + output.found.by_file_alone;
    counts.by_file_alone += output.found.by_file_alone;
    counts.unbounded += output.found.unbounded;
    counts.loose += output.found.loose;
  }
  return counts;
}

/// The largest errors, and what has run.
std::string errors_text(const CaseResult& result) {
  std::vector<std::string> parts;
  if (const OutputResult* one = result.worst_by_reference())
    parts.push_back("largest error / bound " + ratio_at(one->found.by_reference.max_ratio, *one, one->worst));
  if (const OutputResult* one = result.worst_by_file())
    parts.push_back("largest error / tolerance of files " +
                    ratio_at(one->found.by_file->max_ratio, *one, one->file_worst));
  parts.push_back(result.given ? "given outputs"
                               : kernels_text(result) + (is_idle(result) ? ": computed on import" : ""));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// Elements whose bound says little, which one kernel per op has been asked about.
std::string weak_bounds_text(const ElementCounts& counts, const std::string& beside_unfused) {
  std::vector<std::string> held;
  if (counts.unbounded > 0) held.push_back(fmt::format("{} elements without a bound", counts.unbounded));
  if (counts.loose > 0 && !beside_unfused.empty())
    held.push_back(fmt::format("{}{} with a wide {}", counts.loose, held.empty() ? " elements" : "",
                               held.empty() ? "bound" : "one"));
  if (held.empty()) return {};
  return fmt::format("; {} agree with the reference{}", fmt::join(held, " and "), beside_unfused);
}

/// How many elements the reference has said something of, where that is not all.
std::string coverage_text(const ElementCounts& counts, const std::string& not_referenced) {
  const std::string compared =
      fmt::format("; {} of {} elements were compared with the reference", counts.referenced, counts.elements);
  std::string text;
  if (counts.referenced < counts.elements && not_referenced.empty()) text += compared;
  if (counts.by_file_alone > 0) text += fmt::format("; the file alone decides {} elements", counts.by_file_alone);
  if (!not_referenced.empty()) text += fmt::format("{}: {}", compared, not_referenced);
  return text;
}

/// Of a case, how many outputs have no file to be compared with.
std::string missing_files_text(const CaseResult& result) {
  const auto without = std::count_if(result.outputs.begin(), result.outputs.end(),
                                     [](const OutputResult& output) { return !output.found.by_file; });
  if (without == 0 || result.outputs[0].data_set < 0 || result.host_steps > 0) return {};
  return fmt::format("; {} output{} without a file", without, without == 1 ? "" : "s");
}

/// The sentence of what is right.
std::string figures_of(const CaseResult& result) {
  const ElementCounts counts = count_elements(result);
  return errors_text(result) + weak_bounds_text(counts, result.beside_unfused) +
         coverage_text(counts, result.not_referenced) + missing_files_text(result);
}

}  // namespace

const OutputResult* CaseResult::worst_by_reference() const {
  const OutputResult* worst = nullptr;
  for (const OutputResult& output : outputs) {
    const reference::Deviation& found = output.found.by_reference;
    if (found.compared > 0 && (worst == nullptr || found.max_ratio > worst->found.by_reference.max_ratio))
      worst = &output;
  }
  return worst;
}

const OutputResult* CaseResult::worst_by_file() const {
  const OutputResult* worst = nullptr;
  for (const OutputResult& output : outputs) {
    const auto& found = output.found.by_file;
    if (found && found->compared > 0 && (worst == nullptr || found->max_ratio > worst->found.by_file->max_ratio))
      worst = &output;
  }
  return worst;
}

int ValidateReport::count(Verdict verdict) const {
  return static_cast<int>(
      std::count_if(cases.begin(), cases.end(), [&](const CaseResult& one) { return one.verdict == verdict; }));
}

Validation::Validation(const ValidateOptions& how, std::string name) : options(how), limit(how) {
  result.name = std::move(name);
}

void Validation::describe(const Model& model) {
  result.notes = model.notes;
  result.is_known = knows_all(model);
}

void ComparedOutputs::add(Compared outcome) {
  if (wrong_.empty()) wrong_ = outcome.wrong;
  result_.outputs.push_back(std::move(outcome.result));
}

CaseResult failed(Validation& validation, std::string why) {
  validation.result.verdict = Verdict::failed;
  validation.result.detail = std::move(why);
  return std::move(validation.result);
}

CaseResult stopped(Validation& validation, const Error& error) {
  const bool is_failure = error.code == ErrorCode::internal || error.code == ErrorCode::device_error ||
                          error.code == ErrorCode::device_lost;
  validation.result.verdict = is_failure ? Verdict::failed : Verdict::skipped;
  validation.result.detail = error.message;
  return std::move(validation.result);
}

CaseResult right(Validation& validation) {
  validation.result.verdict = is_idle(validation.result) ? Verdict::idle : Verdict::passed;
  validation.result.detail = figures_of(validation.result);
  return std::move(validation.result);
}

}  // namespace vkfuse::tool
