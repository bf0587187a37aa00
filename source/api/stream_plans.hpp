// Programs of a stream by what was recorded, so that a loop compiles once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "api/program.hpp"
#include "api/tensor_node.hpp"
#include "base/shape.hpp"

namespace vkfuse::api {

/// What was recorded for some tensors, down to those that have values.
struct Recorded {
  std::vector<const Tensor::Node*> nodes;   ///< operands first, in the order of api::to_graph
  std::vector<const Tensor::Node*> leaves;  ///< those of them that have values; inputs "x0", "x1", ... of the program
  std::vector<std::size_t> roots;           ///< in `nodes`, as asked for
  std::string structure;                    ///< everything but sizes: equal texts are equal programs up to those
  std::vector<std::int64_t> sizes;          ///< of leaves and of shapes that ops have as attributes, in order of nodes
};

/// The error of an invalid tensor, or of an input, which no value can be had for.
Result<Recorded> record_of(std::span<const Tensor> roots);

/// A size that every run of a program has, or one that is a symbol of it.
struct SizePattern {
  std::int64_t size = 0;
  int symbol = -1;  ///< "d0", "d1", ...
};

/// The graph of what was recorded. Without a pattern all sizes are numbers.
Result<ir::Graph> graph_of(const Recorded& recorded, const std::vector<SizePattern>* pattern, const std::string& name);

/// A program and the sizes that it is for.
struct StreamPlan {
  std::vector<SizePattern> pattern;
  Executable program;
};
struct FittingPlan {
  const Executable* program = nullptr;
  SymbolValues symbols;
};

/// The programs that a stream has compiled, the least recently used of which it forgets.
class StreamPlans {
 public:
  StreamPlans(Device device, CompileOptions options) : device_(std::move(device)), options_(std::move(options)) {}

  /// The program for what was recorded, compiled if there is none. Where one exists that differs in sizes alone, those
  /// become symbols; where the ops cannot have symbols there, each set of sizes has a program. Valid until the next
  /// call.
  Result<FittingPlan> find_or_compile(const Recorded& recorded);
  [[nodiscard]] std::uint64_t compiled() const { return compiled_; }

 private:
  struct Family {
    std::vector<StreamPlan> plans;   // most recently used first
    bool sizes_are_numbers = false;  // a program with symbols was refused
    std::uint64_t used = 0;
    std::vector<ir::Bytes>
        constants;  // those that the structure knows by where they are, so that nothing else comes to be there
  };
  Result<StreamPlan> compile(const Recorded& recorded, std::vector<SizePattern> pattern, bool symbols);
  void forget_oldest();

  Device device_;
  CompileOptions options_;
  std::map<std::string, Family> families_;
  std::uint64_t clock_ = 0;
  std::uint64_t compiled_ = 0;
};

}  // namespace vkfuse::api
