// The matrix template as text. A part is what is computed together for items of neighbouring elements: a factor of
// the products, or the results.
#pragma once

#include "codegen/emitter.hpp"

namespace vkfuse::codegen {

class Matrix : public Emitter {
 public:
  Matrix(const ir::Graph& graph, const segment::Segment& segment, const segment::Loops& loops, const schedule::Schedule& schedule,
         const Target& target, const EmitOptions& options, const std::vector<std::string>& names);

  Result<std::vector<Kernel>> run();

 private:
  struct Part {
    std::string name;              ///< its function is NAME_element
    int axis = -1;                 ///< the loop axis along which items lie
    index::AxisId own = kN;        ///< the counted axis that it belongs to
    int elements = 1;              ///< of an item
    std::vector<ValueId> vectors;  ///< loaded by main() for the whole item
    std::vector<ValueId> per_item, per_element;
    std::vector<ValueId> feeds;             ///< parameters of the function
    std::vector<std::string> coordinates;   ///< and positions
    bool plain = false;            ///< a factor that is a vector load and nothing else: it has no function
  };
  struct FactorText {
    Part part;
    const schedule::Factor* factor = nullptr;
    std::string tile;              ///< the array in shared memory
    std::int64_t units = 1;        ///< items of a tile
    std::int64_t trips = 1;        ///< of these per lane
    int raw_words = 0;             ///< registers of the vectors of one item
    bool ahead = false;            ///< the vectors of the next tile are on their way while this one is multiplied
    [[nodiscard]] int extent(const schedule::TileShape& shape) const { return factor->second ? shape.n : shape.m; }
    [[nodiscard]] int stride(const schedule::TileShape& shape) const { return extent(shape) / 4 + 1; }  ///< between rows of k, in fours
  };

  // --- parts ------------------------------------------------------------------------------------------
  [[nodiscard]] Part make_part(std::string name, index::AxisId own, int axis, int elements, const std::vector<ValueId>& values,
                               const std::vector<ValueId>& wanted) const;
  [[nodiscard]] std::vector<std::pair<index::AxisId, std::string>> own_axes(const Part& part) const;
  void set_axes(Scope& scope, const Part& part, bool element) const;
  [[nodiscard]] Scope part_scope(const Part& part);
  Result<void> element_function(Part& part, const std::function<void(Scope&)>& last, const std::vector<std::string>& results);
  [[nodiscard]] std::vector<std::string> arguments(Scope& scope, const Part& part, int element, const std::map<ValueId, std::string>& groups) const;
  std::map<ValueId, std::string> unpack_group(const Part& part, int group, const std::string& slot);
  /// Items have other lengths in other parts.
  void use_items_of(const Part& part);

  // --- the kernel -------------------------------------------------------------------------------------
  Result<void> factor_function(FactorText& text);
  Result<void> result_function();
  Result<void> main_function();
  void locate_tile();
  void declare();
  void fetch(const FactorText& text, const std::string& step);
  Result<void> hand_over(const FactorText& text);
  void multiply();
  Result<void> store_results();
  /// The position of unit `unit` of a factor in its tile: along the extent, along k; one of them in items.
  void place_unit(const FactorText& text, const std::string& step);
  [[nodiscard]] std::string slot(const FactorText& text) const { return text.trips > 1 ? "[u]" : ""; }
  [[nodiscard]] bool whole_k() const;
  [[nodiscard]] const Value& fold(const schedule::MatrixTile::Sum& sum) const { return loops_.values[sum.fold]; }
  [[nodiscard]] std::int64_t count(std::span<const int> axes) const { return schedule::count_along(loops_, axes); }
  [[nodiscard]] std::string four(const schedule::MatrixTile::Sum& sum) const { return group_type(ops::lane_of(dtype(fold(sum).node)), 4, dialect_); }

  const schedule::MatrixTile& tile_;
  const schedule::TileShape& shape_;
  std::vector<FactorText> factors_;
  std::vector<std::string> sums_;  ///< the accumulators
  Part results_;
  std::string sizes_m_, sizes_n_;
};

}  // namespace vkfuse::codegen
