// What the templates share that multiply through shared memory: factors of products, which are computed as they are
// read and lie in shared memory, in fours with their depth (what is summed) outermost or, for matrix units, as narrow
// numbers in the order in which they were read; and results, computed from the sums.
#pragma once

#include <functional>

#include "codegen/components.hpp"
#include "codegen/emitter.hpp"

namespace vkfuse::codegen {

class Factors : public Emitter {
 protected:
  using Emitter::Emitter;

  /// Some loop axes that are counted as one.
  struct Counted {
    index::AxisId id = kM;
    const char* name = "m";
    std::vector<int> axes;  ///< outermost first
  };
  /// What is computed together for items of neighbouring elements.
  struct Part {
    std::string name;              ///< its function is NAME_element
    segment::AxisSet along = 0;    ///< the loop axes along which items lie
    bool crosses = false;          ///< items lie along all axes of `own`, else along the innermost
    index::AxisId own = kN;        ///< the counted axis that it belongs to
    int elements = 1;              ///< of an item
    std::vector<ValueId> vectors;  ///< loaded by main() for the whole item
    std::vector<ValueId> per_item, per_element;
    std::vector<ValueId> feeds;            ///< parameters of the function
    std::vector<std::string> coordinates;  ///< and positions
    std::vector<std::size_t> stores;       ///< that its function computes: see result_function()
  };
  /// A part whose elements go to shared memory.
  struct Factor {
    Part part;
    ValueId value = 0;
    index::AxisId across = kM, depth = kK;  ///< counted axes; items lie along one of them
    int extent = 1;                         ///< of a tile, across: a multiple of 4
    int deep = 1;                           ///< of a tile, in depth
    std::string tile;           ///< the array in shared memory: in fours across or, for matrix units, as they take it
    std::optional<DType> unit;  ///< for matrix units: what elements are there
    bool dots = false;          ///< T3: bytes, and four neighbours in depth are a word
    bool turned =
        false;  ///< bytes for matrix units that lie across in memory and in depth in the tile, a word at a time
    std::optional<ValueId> as_read;  ///< with either: the load whose words are the elements, casts aside
    bool moved = false;       ///< for matrix units: elements are read, or zeros beside what is read, and never computed
    int begin = 0;            ///< of the tile in its array; for matrix units alone
    std::int64_t units = 1;   ///< items of a tile
    std::int64_t trips = 1;   ///< of these per lane
    bool plain = false;       ///< a vector load and nothing else: there is no function
    bool ahead = false;       ///< vectors of the next tile are on their way while this one is multiplied
    bool unrolled = false;    ///< registers are told apart by the number of the trip
    bool places_once = true;  ///< where a lane's units are in their rows is found once, if it is the same for all: one
                              ///< register more for its whole life
    std::vector<std::pair<ValueId, std::string>> beside;  ///< what the function gives too: a value, and its name
    std::map<ValueId, std::string>
        of_rows;  ///< what is known of each row, and the array that has it; items lie in depth
    [[nodiscard]] bool along_depth() const { return part.own == depth; }
    [[nodiscard]] int stride() const {
      return extent / 4 + 1;
    }  ///< between neighbours in depth, or fours of them, in fours
    /// Steps in depth that a lane brings together: four of bytes that lie across.
    [[nodiscard]] int steps() const { return (dots && !along_depth()) || turned ? 4 : 1; }
    // Of a tile for matrix units: rows along what an item lies along, unless it is turned.
    [[nodiscard]] bool rows_in_depth() const { return along_depth() || turned; }
    [[nodiscard]] int per_word() const {
      return turned ? 4 : std::min(part.elements, 8);
    }  ///< elements in one of the array
    [[nodiscard]] int row_words() const {
      return ((rows_in_depth() ? deep : extent) + schedule::kBytesBetweenRows / size_of(*unit)) / per_word();
    }
    [[nodiscard]] int rows() const { return rows_in_depth() ? extent : deep; }
  };

  // --- parts (factors.cpp) ------------------------------------------------------------------------------
  /// `known` are values that the caller passes to the function, like sums.
  [[nodiscard]] Part make_part(std::string name, index::AxisId own, segment::AxisSet along, int elements,
                               const std::vector<ValueId>& values, const std::vector<ValueId>& wanted,
                               const std::vector<ValueId>& known = {}) const;
  [[nodiscard]] Factor make_factor(ValueId value, const std::vector<ValueId>& cone, bool along_depth, bool crosses,
                                   int elements, const Counted& across, const Counted& depth, int extent, int deep,
                                   std::vector<std::pair<ValueId, std::string>> beside,
                                   const std::map<ValueId, std::string>& of_rows = {});
  void unroll_where_it_pays(Factor& factor) const;
  /// Its elements go to matrix units (`unit`), or to dot products of bytes.
  void narrow_factor(Factor& factor, std::optional<DType> unit, bool dots) const;
  /// Its array in shared memory.
  void declare_tile(const Factor& factor);
  [[nodiscard]] Scope part_scope(const Part& part);
  /// `last` writes what the function ends with; `results` are its last parameters.
  Result<void> element_function(Part& part, const std::function<void(Scope&)>& last,
                                const std::vector<std::string>& results);
  Result<void> factor_function(Factor& factor);
  /// The function of the results; sums and whatever else the caller passes are in `known`.
  /// `stores_here` says which stores are its own; all, unless told.
  Result<void> result_function(Part& part, const std::function<bool(std::size_t store)>& stores_here = {});
  /// What main() passes for an element of an item, but for what it knows itself.
  [[nodiscard]] std::vector<std::string> arguments(Scope& scope, const Part& part, int element,
                                                   const std::map<ValueId, std::string>& groups) const;
  /// Writes what the elements of an item have in common, and loads its vectors unless `loaded` says that they are there
  /// (see load_vectors()); what main() then calls the first group of each vector.
  Result<std::map<ValueId, std::string>> load_item(Scope& scope, const Part& part, const std::string& loaded = "");
  std::map<ValueId, std::string> unpack_group(const Part& part, int group, const std::string& slot);
  /// Items have other lengths in other parts.
  void use_items_of(const Part& part);
  /// A position in tiles of `piece`: where the last one stands out of `all` there are, the last of them again.
  std::string limited(const std::string& position, Extent all, int piece);

  // --- from memory to shared memory -------------------------------------------------------------------------
  /// Registers of what is loaded of a tile that is on its way: vectors, and what an item has once.
  void declare_ahead(const Factor& factor);
  /// Loads them; the tile is number `across` and `depth`.
  Result<void> fetch(const Factor& factor, const std::string& across, const std::string& depth);
  /// Computes a tile's elements and puts them there, zeros past the end of the depth. `after` adds what is done with
  /// each item.
  using AfterItem = std::function<void(const std::string& inside)>;
  Result<void> hand_over(const Factor& factor, const std::string& across, const std::string& depth,
                         const AfterItem& after = {});

  /// Computes and stores the item that `item` and the other positions name. `known` is what main() passes for the
  /// part's known values of an element. With `loaded` its vectors are in registers already, in slots of that number.
  Result<void> store_item(const Part& part, const std::function<std::vector<std::string>(int element)>& known,
                          const std::string& loaded = {});

  [[nodiscard]] const Counted& counted(index::AxisId id) const;
  [[nodiscard]] std::int64_t count(const std::vector<int>& axes) const { return schedule::count_along(loops_, axes); }
  [[nodiscard]] Extent extent(const std::vector<int>& axes) const {
    return {count(axes), schedule::count_along(*like_.loops, axes)};
  }
  [[nodiscard]] std::string four(ValueId value) const {
    return group_type(ops::lane_of(dtype_of(loops_.values[value])), 4, dialect_);
  }
  [[nodiscard]] std::string element_of_four(const std::string& four, int element) const {
    return four + "." + "xyzw"[element];
  }
  /// The workgroup's number, and what leaves those that have none.
  void locate_workgroup();

  std::vector<Counted> counted_;

  /// A fragment of a tile in halves at position `across` of its extent and `depth`: what comes after the matrix in
  /// coopMatLoad. Rows of the fragment are rows of m of a first factor, and of the depth of a second one.
  [[nodiscard]] static std::string fragment_at(const Factor& factor, const std::string& across,
                                               const std::string& depth, bool second);
  /// A function that a matrix is taken through element by element; `body` writes what it returns.
  Result<void> of_element(const std::string& name, const std::string& parameters,
                          const std::function<Result<void>()>& body);

 private:
  [[nodiscard]] std::vector<std::pair<index::AxisId, std::string>> own_axes(const Part& part) const;
  void set_axes(Scope& scope, const Part& part, bool element) const;
  /// Of what is computed once for an item, the loads whose place waits for no other load.
  [[nodiscard]] std::vector<ValueId> loads_of_items(const Part& part) const;
  void place_unit(const Factor& factor, const std::string& across, const std::string& depth);
  [[nodiscard]] std::string slot(const Factor& factor) const {
    return factor.steps() == 1 ? (factor.trips > 1 ? "[u]" : "") : factor.trips > 1 ? "[u * 4u + d]" : "[d]";
  }
  /// What is on its way of a factor, as the end of a declaration.
  [[nodiscard]] std::string slots(const Factor& factor) const {
    const std::int64_t all = factor.trips * factor.steps();
    return all > 1 ? fmt::format("[{}]", all) : "";
  }
  /// Opens the loop over the steps of a unit, and names each one's depth; whether it is in the tensor in `inside`.
  void open_steps(const Factor& factor, const std::string& depth, std::string* inside);
  /// Puts group `g` of an item where fours are.
  void put_fours(const Factor& factor, int g, const std::string& value);
  /// Computes group `g` of an item; the name of its variable.
  std::string factor_group(const Factor& factor, Scope& scope, int g);
  // --- narrow ones (narrow_factors.cpp) ---
  /// An item as words of the narrow dtype: those that were read, else of what is computed.
  std::vector<std::string> narrow_words(const Factor& factor, Scope& scope, DType narrow);
  /// Word number `word` of a lane's item of a load of vectors.
  [[nodiscard]] std::string word_as_read(const Factor& factor, ValueId load, int word) const;
  /// Whether the value is what some loads of items move in this dtype, or literals, as positions choose.
  [[nodiscard]] bool is_moved(ValueId id, DType unit) const;
  /// The elements of an item of such a value, two in a word.
  std::vector<std::string> moved_words(const Factor& factor, Scope& scope, ValueId id);
  Result<void> gather_steps(const Factor& factor, const std::string& depth);
  void put_dots(const Factor& factor, Scope& scope, const std::string& inside);
  bool open_units(const Factor& factor);
  [[nodiscard]] bool keeps_place(const Factor& factor) const;
  /// Items of a tile that are neighbours in memory.
  [[nodiscard]] static int items_of_row(const Factor& factor) {
    return factor.along_depth() ? factor.deep / factor.part.elements : factor.extent / factor.part.elements;
  }
  void close_units(const Factor& factor);
  [[nodiscard]] int units_together(const Factor& factor) const;
};

}  // namespace vkfuse::codegen
