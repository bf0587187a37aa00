// The validation of one model or case, from reading it to its verdict.
#pragma once

#include <string>

#include "tool/validate_output.hpp"

namespace vkfuse::tool {

/// How a model or a case is validated, when that should be done, and what has been found so far.
struct Validation {
  const ValidateOptions& options;
  TimeLimit limit;
  CaseResult result;

  Validation(const ValidateOptions& how, std::string name);
  /// Takes over what the result says of a model that is a graph.
  void describe(const Model& model);
};

/// Gathers outputs that have been compared, and the first sentence of what is wrong.
class ComparedOutputs {
 public:
  explicit ComparedOutputs(CaseResult& result) : result_(result) {}
  void add(Compared outcome);
  [[nodiscard]] const std::string& wrong() const { return wrong_; }

 private:
  CaseResult& result_;
  std::string wrong_;
};

// Verdicts. Each ends the validation, whose result they return.

/// Something is wrong.
CaseResult failed(Validation& validation, std::string why);
/// What is refused is a skip; a defect, and a device that stops, is a failure.
CaseResult stopped(Validation& validation, const Error& error);
/// Everything agrees: passed, or idle.
CaseResult right(Validation& validation);

}  // namespace vkfuse::tool
