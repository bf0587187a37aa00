// What the templates share that multiply tiles in shared memory: operands of contractions, which are computed as they
// are read and staged in shared memory, in vec4s with k (what is summed) outermost or, for cooperative matrices, as
// sub-32-bit numbers in the order in which they were read; and results, computed from the sums.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "lowering/components.hpp"
#include "lowering/emitter.hpp"

namespace vkfuse::lowering {

class OperandEmitter : public Emitter {
 protected:
  explicit OperandEmitter(const LoweringInput& in) : Emitter(in) {
    dialect_.few_exponentials = true;  // few subgroups share a compute unit there, and each waits for its own
  }

  /// Some loop axes that are counted as one.
  struct Counted {
    index::AxisId id = kM;
    const char* name = "m";
    std::vector<int> axes;  ///< outermost first
  };
  /// What is computed together for chunks of neighbouring elements.
  struct Part {
    Code name;                     ///< its function is NAME_element
    segment::AxisSet along = 0;    ///< the loop axes along which chunks lie
    bool flattened = false;        ///< chunks lie along all axes of `own`, else along the innermost
    index::AxisId own = kN;        ///< the counted axis that it belongs to
    int elements = 1;              ///< of a chunk
    std::vector<ValueId> vectors;  ///< loaded by main() for the whole chunk
    std::vector<ValueId> kept;     ///< of these, what all chunks of a thread have alike: loaded once
    std::vector<ValueId> per_chunk, per_element;
    UnpackedFields fields;                 ///< floats that main() takes out of vectors' words
    std::vector<ValueId> function_inputs;  ///< parameters of the function
    std::vector<ValueId> known;            ///< the last of these, which the caller knows, like sums
    std::vector<std::string> coordinates;  ///< and positions
    std::vector<std::size_t> stores;       ///< that its function computes: see result_function()
  };
  /// How a part's values are told apart, and who asks for them.
  struct PartSpec {
    Code name;
    index::AxisId own = kN;
    segment::AxisSet along = 0;
    bool flattened = false;
    int elements = 1;
    std::vector<ValueId> values, requested;
    std::vector<ValueId> known = {};
    bool has_fields = false;  ///< see TileOperandSpec
  };
  /// An operand of contractions whose elements are staged in shared memory, tile by tile.
  struct TileOperand {
    /// Numbers of four or eight bits, of which f16 are made two at a time: those that are 16 bits apart in a word.
    struct NumberPairs {
      ValueId number = 0, load = 0;
      int bits = 4;
      std::uint32_t flip = 0;  ///< a number is (its bits ^ flip) + offset
      std::int64_t offset = 0;
      std::optional<ValueId> scale;                          ///< of a chunk
      [[nodiscard]] int apart() const { return 16 / bits; }  ///< elements
    };
    /// What elements are in shared memory: their own register type, unless either is there.
    struct Encoding {
      std::optional<DType> component;  ///< of cooperative matrices
      bool integer_dot = false;        ///< bytes, and four neighbours along k are a 32-bit word
      bool turned = false;  ///< bytes for cooperative matrices that lie across in memory and along k in the tile, four
                            ///< at a time
      std::optional<ValueId> as_read;  ///< the load whose 32-bit words are the elements, casts aside
      bool copied = false;  ///< for cooperative matrices: elements are read, or zeros beside what is read, and never
                            ///< computed
      std::optional<NumberPairs> pairs;  ///< with fragments that lanes make
    };
    /// How threads bring a tile.
    struct Staging {
      std::int64_t chunks = 1;      ///< of a tile; with `steps` above 1: of chunks that are brought together
      std::int64_t iterations = 1;  ///< a thread's share of these
      bool prefetched = false;      ///< vectors of the next tile are in flight while this one is multiplied
      bool unrolled = false;        ///< registers are told apart by the number of the iteration
      bool positions_once = true;   ///< where a thread's chunks are in their rows is found once, if it is the same for
                                    ///< all: one register more for its whole life
    };
    Part part;
    ValueId value = 0;
    index::AxisId across = kM, depth = kK;  ///< counted axes; chunks lie along one of them
    int extent = 1;                         ///< of a tile, across: a multiple of 4
    int k_extent = 1;                       ///< of a tile, along k
    Code tile;           ///< the array in shared memory: in vec4s across or, for cooperative matrices, as they take it;
                         ///< of fragments that lanes make, words in registers
    int begin = 0;       ///< of the tile in its array; for cooperative matrices alone
    bool plain = false;  ///< a vector load and nothing else: there is no function
    Encoding encoding;
    Staging staging;
    std::vector<std::pair<ValueId, Code>> beside;  ///< what the function gives too: a value, and its name
    std::map<ValueId, Code> ahead;                 ///< registers of what a chunk has once, while it is in flight
    /// What is known of each row, and the array that has it; chunks lie along k.
    std::map<ValueId, Code> of_rows;

    [[nodiscard]] bool along_k() const { return part.own == depth; }
    /// Between neighbours along k, or groups of four of them, in vec4s.
    [[nodiscard]] int stride() const { return extent / 4 + 1; }
    /// Positions along k that a thread brings together: four of bytes that lie across.
    [[nodiscard]] int steps() const { return (encoding.integer_dot && !along_k()) || encoding.turned ? 4 : 1; }
    // Of a tile for cooperative matrices: rows along what a chunk lies along, unless it is turned.
    [[nodiscard]] bool rows_along_k() const { return along_k() || encoding.turned; }
    /// Elements in one of the array.
    [[nodiscard]] int per_word() const { return encoding.turned ? 4 : std::min(part.elements, 8); }
    [[nodiscard]] int row_words() const {
      return ((rows_along_k() ? k_extent : extent) + schedule::kBytesBetweenRows / size_of(*encoding.component)) /
             per_word();
    }
    [[nodiscard]] int rows() const { return rows_along_k() ? extent : k_extent; }
  };
  /// What a tile operand is made from.
  struct TileOperandSpec {
    ValueId value = 0;
    std::vector<ValueId> backward_slice;  ///< of the value, and of those `beside` it
    bool along_k = false, flattened = false;
    int elements = 1;                       ///< of a chunk
    index::AxisId across = kM, depth = kK;  ///< counted axes
    int extent = 1, k_extent = 1;           ///< of a tile
    std::vector<std::pair<ValueId, Code>> beside = {};
    std::map<ValueId, Code> of_rows = {};  ///< of these, the operand takes what its values ask for
    std::vector<ValueId> kept = {};        ///< see schedule::kept_along_sum()
    bool has_fields = false;               ///< main() calls write_fields()
    int chunks_of_lane = 0;  ///< with fragments that lanes make: what a lane has at a time, of which more than one are
                             ///< in flight; nothing is staged
  };

  // --- parts (parts.cpp) -----------------------------------------------------------------------------------
  [[nodiscard]] Part make_part(PartSpec spec) const;
  [[nodiscard]] TileOperand make_tile_operand(TileOperandSpec spec);
  void unroll_where_it_pays(TileOperand& tile_operand) const;
  /// Its elements go to cooperative matrices of this component type, or to integer dot products.
  void make_sub32(TileOperand& tile_operand, std::optional<DType> component, bool integer_dot) const;
  /// Numbers of a few bits are floats that main() takes out of the words of vectors.
  void find_packed_numbers(Part& part, const std::vector<ValueId>& requested) const;
  /// What main() needs for it, before anything is loaded.
  void write_fields(const TileOperand& tile_operand);
  /// Its array in shared memory.
  void declare_tile(const TileOperand& tile_operand);
  [[nodiscard]] Scope part_scope(const Part& part);
  /// `last` writes what the function ends with; `results` are its last parameters.
  Result<void> element_function(Part& part, const std::function<void(Scope&)>& last, const std::vector<Code>& results);
  Result<void> tile_operand_function(TileOperand& tile_operand);
  /// The function of the results; sums and whatever else the caller passes are in `known`.
  /// `stores_here` says which stores are its own; all, unless told.
  Result<void> result_function(Part& part, const std::function<bool(std::size_t store)>& stores_here = {});
  /// What main() passes for an element of a chunk, but for what it knows itself.
  [[nodiscard]] std::vector<Code> arguments(Scope& scope, const Part& part, int element,
                                            const std::map<ValueId, Code>& groups) const;
  /// Writes what the elements of a chunk have in common, and loads its vectors unless `loaded` says that they are there
  /// (see load_vectors()); what main() then calls the first group of each vector.
  Result<std::map<ValueId, Code>> load_chunk(Scope& scope, const Part& part, const Code& loaded = "");
  std::map<ValueId, Code> unpack_group(const Part& part, int group, const Code& register_index);
  /// Chunks have other lengths in other parts.
  void use_chunks_of(const Part& part);
  /// A position in tiles of `piece`; past the end of `all`, the last one again.
  Code limited(const Code& position, Extent all, int piece);

  // --- from memory to shared memory -------------------------------------------------------------------------
  /// Loads what all of a thread's chunks have alike at every step; the tile is number `across`.
  void fetch_kept(const TileOperand& tile_operand, const Code& across);
  /// Registers of what is loaded of a tile that is in flight: vectors, and what a chunk has once.
  void declare_prefetch(const TileOperand& tile_operand);
  /// Loads them; the tile is number `across` and `depth`.
  Result<void> fetch(const TileOperand& tile_operand, const Code& across, const Code& depth);
  /// Computes a tile's elements and puts them in shared memory, zeros past the end of k. `after` adds what is done with
  /// each chunk.
  using AfterChunk = std::function<void(const Code& inside)>;
  Result<void> stage(const TileOperand& tile_operand, const Code& across, const Code& depth,
                     const AfterChunk& after = {});

  // --- one chunk of a thread, the `u`th of several, for kernels that locate it themselves ------------------------
  /// Loads what is in flight of it.
  Result<void> fetch_chunk(const TileOperand& tile_operand);
  /// What its elements are computed from: names what is in flight, and loads the rest.
  Result<void> load_staged_chunk(const TileOperand& tile_operand, Scope& scope);
  /// Its elements as 32-bit words, two of 16 bits each: neighbours, or those that NumberPairs has in a word.
  Result<std::vector<Code>> words_of_chunk(const TileOperand& tile_operand);
  /// How an operand's elements are made two at a time; nothing where they are something else.
  [[nodiscard]] std::optional<TileOperand::NumberPairs> number_pairs_of(const TileOperand& tile_operand) const;
  /// What main() needs for them, before anything is loaded.
  void write_pairs(const TileOperand& tile_operand);
  /// Computes group `g` of its elements; what they are called.
  Code tile_operand_group(const TileOperand& tile_operand, Scope& scope, int g);

  /// Computes and stores the chunk that `chunk` and the other positions name. `known` is what main() passes for the
  /// part's known values of an element. With `loaded` its vectors are in registers already, at that register index.
  Result<void> store_chunk(const Part& part, const std::function<std::vector<Code>(int element)>& known,
                           const Code& loaded = {});

  [[nodiscard]] const Counted& counted(index::AxisId id) const;
  [[nodiscard]] std::int64_t count(const std::vector<int>& axes) const { return schedule::count_along(loops_, axes); }
  [[nodiscard]] Extent extent(const std::vector<int>& axes) const {
    return {count(axes), schedule::count_along(*reference_sizes_.loops, axes)};
  }
  [[nodiscard]] Code vec4(ValueId value) const {
    return group_type(ops::register_type_of(dtype_of(loops_.values[value])), 4, dialect_);
  }
  /// The workgroup's number, and what leaves those that have none.
  void locate_workgroup();

  std::vector<Counted> counted_;

  /// A fragment of a tile for cooperative matrices at position `across` of its extent and `depth`: what comes after the
  /// matrix in coopMatLoad. Rows of the fragment are rows of m of a first operand, and positions of k of a second one.
  [[nodiscard]] static Code fragment_at(const TileOperand& tile_operand, const Code& across, const Code& depth,
                                        bool second);
  /// A function that a matrix is taken through element by element; `body` writes what it returns.
  Result<void> of_element(const Code& name, const Code& parameters, const std::function<Result<void>()>& body);

 private:
  [[nodiscard]] std::vector<std::pair<index::AxisId, std::string>> own_axes(const Part& part) const;
  void set_axes(Scope& scope, const Part& part, bool element) const;
  /// Whether a value differs within chunks of the part, those of its operands being sorted.
  [[nodiscard]] bool differs_in_chunk(const Part& part, ValueId id) const;
  void sort_values(Part& part, const std::vector<ValueId>& values) const;
  /// Of what is computed once for a chunk, what says where its vectors are.
  [[nodiscard]] std::vector<ValueId> positions_of_vectors(const Part& part) const;
  /// Of what is computed once for a chunk, the loads whose position waits for no other load.
  [[nodiscard]] std::vector<ValueId> loads_of_chunks(const TileOperand& tile_operand) const;
  /// What is computed once for a chunk after its vectors have been loaded, ahead of their use or not.
  [[nodiscard]] std::vector<ValueId> values_of_chunk(const TileOperand& tile_operand) const;
  /// Of what is computed once for a chunk, what leads to some values.
  [[nodiscard]] std::vector<ValueId> led_to(const Part& part, std::set<ValueId> wanted) const;
  [[nodiscard]] std::vector<ValueId> take_row_values(const TileOperandSpec& spec, const std::vector<ValueId>& requested,
                                                     TileOperand& tile_operand) const;
  [[nodiscard]] bool can_prefetch(const TileOperand& tile_operand) const;
  // --- the loop over a thread's chunks ---
  bool open_chunks(const TileOperand& tile_operand);
  void close_chunks(const TileOperand& tile_operand);
  [[nodiscard]] int chunks_in_flight(const TileOperand& tile_operand) const;
  [[nodiscard]] bool keeps_position(const TileOperand& tile_operand) const;
  /// Chunks of a tile that are neighbours in memory.
  [[nodiscard]] static int chunks_of_row(const TileOperand& tile_operand) {
    return tile_operand.along_k() ? tile_operand.k_extent / tile_operand.part.elements
                                  : tile_operand.extent / tile_operand.part.elements;
  }
  void locate_in_tile(const TileOperand& tile_operand, int per_tile, int per_step);
  /// Names a thread's chunk: where it is in the tile, and in the tensor.
  void locate_chunk(const TileOperand& tile_operand, const Code& across, const Code& depth);
  /// Opens the loop over the steps of a chunk, and names each one's position along k; whether it is in the tensor in
  /// `inside`.
  void open_steps(const TileOperand& tile_operand, const Code& depth, Code* inside);
  [[nodiscard]] Code register_index(const TileOperand& tile_operand) const {
    return tile_operand.steps() == 1             ? (tile_operand.staging.iterations > 1 ? "[u]" : "")
           : tile_operand.staging.iterations > 1 ? "[u * 4u + d]"
                                                 : "[d]";
  }
  /// Where the words of a vector of the thread's chunk are in the registers that are named like it.
  [[nodiscard]] Code index_of(const TileOperand& tile_operand, ValueId vector) const {
    return tile_operand.staging.prefetched && !is_kept(tile_operand.part, vector) ? register_index(tile_operand) : "";
  }
  [[nodiscard]] static bool is_kept(const Part& part, ValueId vector) {
    return std::find(part.kept.begin(), part.kept.end(), vector) != part.kept.end();
  }
  /// The position of a thread's chunk, which is `row` in the tile.
  [[nodiscard]] Code place_across(const TileOperand& tile_operand, const Code& across, const Code& row);
  /// The registers of what is in flight of an operand, as the end of a declaration.
  [[nodiscard]] Code prefetch_extent(const TileOperand& tile_operand) const {
    const std::int64_t all = tile_operand.staging.iterations * tile_operand.steps();
    return all > 1 ? code("[{}]", all) : "";
  }
  // --- from a thread's chunk to the tile ---
  [[nodiscard]] Code inside_along_k(const TileOperand& tile_operand, const Code& depth);
  Result<void> put_chunk(const TileOperand& tile_operand, const Code& depth, const AfterChunk& after);
  void put_components(const TileOperand& tile_operand, Scope& scope, const Code& inside);
  void put_vec4s(const TileOperand& tile_operand, Scope& scope, const Code& inside);
  /// Puts group `g` of a chunk where vec4s are.
  void put_vec4(const TileOperand& tile_operand, int g, const Code& value);
  // --- elements of fewer bits than a register (sub32_operands.cpp) ---
  void join_steps(TileOperand& tile_operand) const;
  /// Whether the operand's elements are what a load of vectors reads and nothing else.
  [[nodiscard]] bool is_loaded_alone(const TileOperand& tile_operand, ValueId load) const;
  /// A chunk as 32-bit words of the dtype: those that were read, else of what is computed.
  std::vector<Code> sub32_words(const TileOperand& tile_operand, Scope& scope, DType dtype);
  /// Word number `word` of a thread's chunk of a load of vectors.
  [[nodiscard]] Code word_as_read(const TileOperand& tile_operand, ValueId load, int word) const;
  /// Whether the value is what some loads of chunks move in this dtype, or literals, as positions choose.
  [[nodiscard]] bool is_copied(ValueId id, DType component) const;
  /// The elements of a chunk of a value that is copied, two in a word.
  std::vector<Code> copied_words(const TileOperand& tile_operand, Scope& scope, ValueId id);
  std::vector<Code> words_of_pairs(const TileOperand& tile_operand, Scope& scope);
  [[nodiscard]] static std::optional<TileOperand::NumberPairs> pairs_of_field(ValueId id, const UnpackedField& field);
  [[nodiscard]] std::optional<TileOperand::NumberPairs> pairs_of_bytes(ValueId id) const;
  [[nodiscard]] std::optional<TileOperand::NumberPairs> pairs_of_number(const Part& part, ValueId id) const;
  [[nodiscard]] std::vector<Code> literal_words(const TileOperand& tile_operand, ValueId literal) const;
  std::vector<Code> loaded_words(const TileOperand& tile_operand, ValueId load);
  std::vector<Code> chosen_words(const TileOperand& tile_operand, Scope& scope, ValueId choice);
  /// The conditions of a choice: what is the same for all elements of a chunk is asked once.
  struct ChunkPredicates {
    std::vector<segment::Predicate> of_chunk, of_element;
  };
  [[nodiscard]] ChunkPredicates split_predicates(const Scope& scope, const Value& choice, int elements) const;
  Result<void> gather_steps(const TileOperand& tile_operand, const Code& depth);
  void put_gathered(const TileOperand& tile_operand);
  void put_integer_dots(const TileOperand& tile_operand, Scope& scope, const Code& inside);
};

}  // namespace vkfuse::lowering
