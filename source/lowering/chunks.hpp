// What the templates share whose invocations own chunks of consecutive elements: main() moves whole chunks, and a
// function computes one element.
#pragma once

#include <algorithm>

#include "lowering/emitter.hpp"

namespace vkfuse::lowering {

class ChunkEmitter : public Emitter {
 protected:
  using Emitter::Emitter;
  ChunkEmitter(const ChunkEmitter&) = delete;
  ChunkEmitter& operator=(const ChunkEmitter&) = delete;
  virtual ~ChunkEmitter() = default;

  /// Loop axes in terms of the template's own axes, for a chunk or for one element of it.
  virtual void set_axes(Scope& scope, bool element) const = 0;
  /// The template's own axes and what they are called in main() and in the element function.
  using AxisNames = std::vector<std::pair<index::AxisId, std::string>>;
  [[nodiscard]] virtual AxisNames own_axes() const = 0;
  /// What main() passes for one of these names to the function of a chunk's element.
  [[nodiscard]] virtual Code argument(const std::string& name, int element) const = 0;
  /// Whether an element of a chunk is one of the tensor's, as a condition in main(); empty where all are.
  [[nodiscard]] virtual Code existence(int /*element*/) const { return {}; }
  /// One group of a load that main() does for the whole chunk, as a value of group_type_of().
  virtual Code loaded_group(ValueId id, int group, const Code& register_index) {
    return unpacked(id, group, register_index);
  }

  /// Whether results need the value; what else there is, the template computes.
  [[nodiscard]] virtual bool is_of_results(ValueId /*id*/) const { return true; }
  /// Whether main() loads the value, or has it, for the whole chunk.
  [[nodiscard]] virtual bool is_loaded_whole(ValueId id) const;
  /// Whether its vectors are held in registers of the thread that needs them.
  [[nodiscard]] bool is_vector(ValueId id) const;

  /// Decides which values are computed once per chunk and which once per element.
  void sort_values();
  /// Writes the function of one element.
  Result<void> element_function();
  [[nodiscard]] Scope chunk_scope();
  /// Whether the element function has that parameter.
  [[nodiscard]] bool takes(std::string_view name) const {
    return std::find(coordinates_.begin(), coordinates_.end(), name) != coordinates_.end();
  }
  /// Whether the element function is told if its element exists: of those behind the end that share a vector with the
  /// last one, each has an operand of its own, and must not store what it computes at the last one's place.
  [[nodiscard]] bool takes_existence() const { return takes_existence_; }
  /// Unpacks the groups of a chunk and calls the function for each element; values of the chunk are known.
  void compute(Scope& scope, const Code& register_index);
  /// Stores the vectors of a chunk; see Emitter::store_vectors.
  void store(Scope& scope, const Code& whole, const Code& valid);

  std::vector<ValueId> vectors_, per_chunk_;

 private:
  [[nodiscard]] bool is_stored_whole(std::size_t store) const {
    return schedule_.stores[store].kind == schedule::AccessKind::vector;
  }

  /// Which of the values that main() has the element function needs; `whole` are those loaded for whole chunks.
  void find_function_inputs(const std::vector<ValueId>& whole);
  Result<Code> element_body();
  /// The parameters of the function with that body.
  Code element_parameters(const Code& body);

  std::vector<ValueId> per_element_;
  std::vector<ValueId> function_inputs_;  ///< parameters of the element function
  std::vector<std::string> coordinates_;  ///< axes that are parameters too
  bool takes_existence_ = false;
};

}  // namespace vkfuse::lowering
