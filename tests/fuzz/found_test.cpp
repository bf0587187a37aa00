// Graphs that random ones were shrunk to, each of which was wrong once.
#include <gtest/gtest.h>

#include "support/compare.hpp"

namespace vkfuse::test {
namespace {

struct Found {
  const char* name;  ///< what was wrong
  const char* text;
};

const Found kFound[] = {
    // Elements behind the end share a vector with the last one, and stored what they computed from it in its place.
    {"TailOfATransposedStore", R"(graph "g" {
  %0 = input "x" : u8[2, 2]
  %1 = permute axes=[1, 0] %0 : u8[2, 2]
  %2 = shift_right %0 %0 : u8[2, 2]
  output "y" = %1
  output "y1" = %2
})"},
    {"TailOfATransposedStoreOfWords", R"(graph "g" {
  %0 = input "x" : f32[31, 3]
  %1 = permute axes=[1, 0] %0 : f32[3, 31]
  %2 = neg %0 : f32[31, 3]
  output "y" = %1
  output "y1" = %2
})"},
    // A reduction, a scan or a scatter that is read at positions of data, beside one along the axis that these vary
    // along, was taken for the same at all of them.
    {"PickedByDataBesideATotal", R"(graph "g" {
  %0 = input "m" : f32[5, 7]
  %1 = input "index5 7" : i32[7]
  %2 = input "u" : f32[7]
  %3 = reduce_sum axes=[0] %2 : f32[]
  %4 = reduce_sum axes=[1] %0 : f32[5]
  %5 = gather axis=0 %4 %1 : f32[7]
  output "L" = %3
  output "g" = %5
})"},
    {"PickedByDataAlongARow", R"(graph "g" {
  %0 = input "x" : i32[8, 8, 8]
  %1 = reduce_max axes=[1] %0 : i32[8, 8]
  %2 = reshape %1 : i32[8, 1, 8]
  %3 = sub %0 %2 : i32[8, 8, 8]
  %4 = input "index8 1" : i32[8, 8, 8]
  %5 = take_along axis=2 %3 %4 : i32[8, 8, 8]
  %6 = mul %0 %3 : i32[8, 8, 8]
  output "y" = %5
  output "z" = %6
})"},
    {"PickedByDataOfAScan", R"(graph "g" {
  %0 = input "index8 2" : i32[8, 8, 8]
  %1 = reduce_max axes=[2] %0 : i32[8, 8]
  %2 = reshape %1 : i32[8, 8, 1]
  %3 = sub %0 %2 : i32[8, 8, 8]
  %4 = input "x" : i32[8, 8, 8]
  %5 = cumsum axis=2 exclusive=false reverse=false %4 : i32[8, 8, 8]
  %6 = take_along axis=0 %5 %0 : i32[8, 8, 8]
  output "y" = %3
  output "z" = %6
})"},
    {"PickedByDataOfAScatter", R"(graph "g" {
  %0 = input "a" : f32[4]
  %1 = input "index4 3" : i32[4]
  %2 = input "b" : f32[4]
  %3 = reduce_sum axes=[0] %2 : f32[]
  %4 = input "c" : f32[8]
  %5 = input "d" : f32[4]
  %6 = scatter mode=mul %0 %1 %5 : f32[4]
  %7 = gather axis=0 %6 %1 : f32[4]
  %8 = slice_assign starts=[7] steps=[-2] %4 %7 : f32[8]
  %9 = slice starts=[0] steps=[1] %8 : f32[4]
  output "L" = %3
  output "g" = %9
})"},
    // A result of no elements had one written, where another member of its kernel has some.
    {"NothingBesideAFold", R"(graph "g" {
  %0 = input "was1" : i32[1, 2]
  %1 = argmax axes=[1] %0 : i32[1]
  %2 = input "x1" : i32[0]
  %3 = ne %2 %1 : bool[0]
  output "y1" = %3
})"},
    {"NothingBesideAScatter", R"(graph "g" {
  %0 = input "was2" : bool[1, 0]
  %1 = input "x4" : bool[2, 0]
  %2 = input "index14 5" : u32[2]
  %3 = scatter mode=set %0 %2 %1 : bool[1, 0]
  output "y1" = %3
})"},
    // Nothing was launched where a product has no elements, and the identity of what reduces them was not written.
    {"AProductOfNoElements", R"(graph "g" {
  %0 = input "x" : i8[2, 0]
  %1 = input "y" : i8[2]
  %2 = dot batch_a=[] batch_b=[] contract_a=[0] contract_b=[0] %0 %1 : i8[0]
  %3 = reduce_prod axes=[0] %2 : i8[]
  output "y" = %3
})"},
    {"AProductOfNoRows", R"(graph "g" {
  %0 = input "x" : f32[0, 5]
  %1 = input "w" : f32[5, 4]
  %2 = dot batch_a=[] batch_b=[] contract_a=[1] contract_b=[0] %0 %1 : f32[0, 4]
  %3 = reduce_sum axes=[0] %2 : f32[4]
  %4 = exp %3 : f32[4]
  output "y" = %4
})"},
    {"AScanOfNoElements", R"(graph "g" {
  %0 = input "x" : f32[3, 0]
  %1 = cumsum axis=1 exclusive=false reverse=false %0 : f32[3, 0]
  %2 = reduce_max axes=[0] %1 : f32[0]
  %3 = reduce_sum axes=[1] %1 : f32[3]
  output "y" = %3
  output "z" = %2
})"},
    // A reduction left out the elements of its row that an assignment covers behind it.
    {"FoldUnderAChoiceOfColumns", R"(graph "g" {
  %0 = input "x" : f32[7, 40]
  %1 = reduce_max axes=[1] %0 : f32[7]
  %2 = reshape %1 : f32[7, 1]
  %3 = sub %0 %2 : f32[7, 40]
  %4 = input "u" : f32[7, 10]
  %5 = slice_assign starts=[0, 13] steps=[1, 2] %3 %4 : f32[7, 40]
  output "y" = %5
})"},
    {"FoldUnderAChoiceOfRowsAndColumns", R"(graph "g" {
  %0 = input "x" : f32[7, 40]
  %1 = reduce_sum axes=[1] %0 : f32[7]
  %2 = reshape %1 : f32[7, 1]
  %3 = mul %0 %2 : f32[7, 40]
  %4 = input "u" : f32[3, 10]
  %5 = slice_assign starts=[2, 13] steps=[1, 2] %3 %4 : f32[7, 40]
  output "y" = %5
})"},
    {"ScanUnderAChoice", R"(graph "g" {
  %0 = input "x" : i64[1, 2, 2, 1]
  %1 = cumsum axis=2 exclusive=false reverse=true %0 : i64[1, 2, 2, 1]
  %2 = input "u" : i64[1, 1, 1, 1]
  %3 = slice_assign starts=[0, 1, 1, 0] steps=[1, 2, 1, -2] %1 %2 : i64[1, 2, 2, 1]
  output "y" = %3
})"},
    {"ScanOfPartsOfRows", R"(graph "g" {
  %0 = input "x" : f32[5, 33]
  %1 = cumsum axis=1 exclusive=false reverse=false %0 : f32[5, 33]
  %2 = input "u" : f32[2, 33]
  %3 = concat axis=0 %1 %2 : f32[7, 33]
  output "y" = %3
})"},
    // One number, stored at every column of a scan's kernel, was not known where it was stored.
    {"ANumberBesideAScan", R"(graph "g" {
  %0 = input "x" : f32[1]
  %1 = input "u" : i32[2]
  %2 = broadcast %0 : f32[2]
  %3 = cummin axis=0 exclusive=false reverse=false %1 : i32[2]
  output "y" = %3
  output "y1" = %2
})"},
    {"OneElementGatheredBesideAScan", R"(graph "g" {
  %0 = input "x" : f32[1]
  %1 = input "index1 2" : i32[2]
  %2 = gather axis=0 %0 %1 : f32[2]
  %3 = cummin axis=0 exclusive=false reverse=true %1 : i32[2]
  %4 = bitcast %3 : f32[2]
  output "y" = %4
  output "y1" = %2
})"},
    // The second of two stores used a name that the first one's block had.
    {"TwoStoresOfOnePosition", R"(graph "g" {
  %0 = iota axis=1 : i64[5, 5]
  %1 = unfold axes=[0, 1] sizes=[3, 2] strides=[2, 1] dilations=[1, 1] %0 : i64[2, 4, 3, 2]
  %2 = cummax axis=1 exclusive=false reverse=false %1 : i64[2, 4, 3, 2]
  output "y" = %2
  output "y1" = %1
})"},
    // Elements of an order that data chooses were written as if they stood where the order is made.
    {"ElementsOfAnOrder", R"(graph "g" {
  %0 = input "x" : f32[3, 2, 9]
  %1 = argsort axis=2 descending=true count=9 %0 : i32[3, 2, 9]
  %2 = input "index9" : i32[3, 2, 4]
  %3 = take_along axis=2 %1 %2 : i32[3, 2, 4]
  output "y" = %3
})"},
    // What a tile's columns have in common was asked for before it had gone through shared memory: a position, and what
    // is computed
    // of a transposed element.
    {"PositionsThatCrossATile", R"(graph "g" {
  %0 = input "index7 5" : i64[2]
  %1 = input "index2" : i64[3]
  %2 = take_along axis=0 %0 %1 : i64[3]
  %3 = input "x8" : i64[33, 15, 3]
  %4 = dot batch_a=[0] batch_b=[2] contract_a=[] contract_b=[] %2 %3 : i64[3, 33, 15]
  output "y3" = %4
})"},
    // SwiftShader takes the larger of two constants for the smallest number, from which a reduction starts.
    {"LargestOfConstantPositions", R"(graph "g" {
  %0 = input "x" : f32[3, 1]
  %1 = argsort axis=1 descending=true count=1 %0 : i32[3, 1]
  %2 = reduce_max axes=[0, 1] %1 : i32[]
  output "y" = %2
})"},
    {"FoldsOfConstants", R"(graph "g" {
  %0 = constant {-5} : i32[]
  %1 = broadcast %0 : i32[3, 4]
  %2 = reduce_max axes=[0] %1 : i32[4]
  %3 = reduce_min axes=[0] %1 : i32[4]
  %4 = cummax axis=0 exclusive=false reverse=false %1 : i32[3, 4]
  %5 = constant {7} : i64[]
  %6 = broadcast %5 : i64[3, 4]
  %7 = reduce_max axes=[0] %6 : i64[4]
  %8 = cummax axis=1 exclusive=true reverse=false %6 : i64[3, 4]
  %9 = argmax axes=[1] %6 : i32[3]
  output "y" = %2
  output "y1" = %3
  output "y2" = %4
  output "y3" = %7
  output "y4" = %8
  output "y5" = %9
})"},
    // Positions in rows of nothing had the type of what they are positions of.
    {"PositionsOfNothing", R"(graph "g" {
  %0 = input "x" : i64[0, 2, 1, 1]
  %1 = argmax axes=[2] %0 : i32[0, 2, 1]
  output "y" = %1
})"},
    // Nothing picked out of nothing was refused.
    {"GatherOfNothing", R"(graph "g" {
  %0 = input "x" : f32[5, 0]
  %1 = input "index5" : i32[3]
  %2 = gather axis=0 %0 %1 : f32[3, 0]
  output "y" = %2
})"},
    // A position that both read was taken for one of the first, whose rows had ended.
    {"SlicesOfAsManyElementsInOtherRows", R"(graph "g" {
  %0 = input "x" : f32[3, 16]
  %1 = slice starts=[0, 0] steps=[1, 1] %0 : f32[3, 4]
  %2 = exp %1 : f32[3, 4]
  %3 = slice starts=[0, 0] steps=[1, 1] %0 : f32[1, 12]
  %4 = abs %3 : f32[1, 12]
  output "y" = %2
  output "y1" = %4
})"},
};

// Nothing, along symbols for which large sizes stand until a run, was refused as too large for a buffer.
TEST(FoundByFuzzing, NothingIsNotTooLarge) {
  const ir::Graph graph = must(ir::parse(R"(graph "g" {
  dim n min=0 max=9223372036854775807 multiple=1
  dim m min=0 max=9223372036854775807 multiple=1
  %0 = input "x" : u64[n, m, 64, 0]
  %1 = bit_not %0 : u64[n, m, 64, 0]
  output "y" = %1
})"));
  const SymbolValues sizes = {{"n", 3}, {"m", 4}};
  compare_with_reference(compile_graph(graph, {}), graph, data_for({graph, sizes, 1, false}), "nothing");
}

// A sort of elements of eight bytes, along symbols: what it keeps between its dispatches did not fit at the sizes that
// stand for symbols until a run, and the program was refused.
TEST(FoundByFuzzing, SortsAlongSymbolsAreNotTooLarge) {
  const ir::Graph graph = must(ir::parse(R"(graph "g" {
  %0 = input "x" : u64[n, m]
  %1 = argsort axis=0 descending=true count=0 %0 : i32[n, m]
  output "y" = %1
})"));
  const SymbolValues sizes = {{"n", 16}, {"m", 64}};
  compare_with_reference(compile_graph(graph, {}), graph, data_for({graph, sizes, 1, false}), "a sort");
}

// The same in a run, whose other sizes would take more than a storage buffer holds.
TEST(FoundByFuzzing, NothingOfManyRowsIsNotTooLarge) {
  const ir::Graph graph = must(ir::parse(R"(graph "g" {
  %0 = input "x" : u64[n, m, k]
  %1 = bit_not %0 : u64[n, m, k]
  %2 = argsort axis=1 descending=true count=0 %0 : i32[n, m, k]
  output "y" = %1
  output "y1" = %2
})"));
  const Executable program = compile_graph(graph, {});
  for (const char* nothing : {"n", "m", "k"}) {
    SymbolValues sizes = {{"n", 8192}, {"m", 8192}, {"k", 8192}};
    sizes[nothing] = 0;
    compare_with_reference(program, graph, data_for({graph, sizes, 1, false}), std::string("nothing along ") + nothing);
  }
}

// The same, where a symbol that is never more than nothing made the sizes that stand for others as large as can be.
TEST(FoundByFuzzing, NothingAlongASymbolIsNotTooLarge) {
  const ir::Graph graph = must(ir::parse(R"(graph "g" {
  dim n3 min=0 max=0 multiple=1
  %0 = input "x2" : u64[n0, 2, n2, n3]
  output "y" = %0
})"));
  const SymbolValues sizes = {{"n0", 3}, {"n2", 4}, {"n3", 0}};
  compare_with_reference(compile_graph(graph, {}), graph, data_for({graph, sizes, 1, false}), "nothing along a symbol");
}

// What an exclusive scan reads and is stored beside it had no place where the axis is empty in a run.
TEST(FoundByFuzzing, StoreBesideAScanOfNothing) {
  const ir::Graph graph = must(ir::parse(R"(graph "g" {
  %0 = input "x" : u16[1, 1, n, m]
  %1 = cast %0 : i32[1, 1, n, m]
  %2 = cummax axis=3 exclusive=true reverse=false %1 : i32[1, 1, n, m]
  output "y" = %2
  output "y1" = %1
})"));
  const Executable program = compile_graph(graph, {});
  for (const std::int64_t n : {0, 1, 4}) {
    for (const std::int64_t m : {0, 1, 5}) {
      const SymbolValues sizes = {{"n", n}, {"m", m}};
      compare_with_reference(program, graph, data_for({graph, sizes, 1, false}), fmt::format("n={} m={}", n, m));
    }
  }
}

// A reduction of what has elements, for a result that has none in a run, stored one.
TEST(FoundByFuzzing, FoldForAResultOfNothing) {
  const ir::Graph graph = must(ir::parse(R"(graph "g" {
  %0 = input "p" : bool[n, 1]
  %1 = input "x" : u32[2]
  %2 = reduce_sum axes=[0] %1 : u32[]
  %3 = select %0 %2 %2 : u32[n, 1]
  output "y" = %3
})"));
  for (const Device* on : {&device(), &device_with_low_limits()}) {
    Build how;
    how.device = on;
    const Executable program = compile_graph(graph, how);
    for (const std::int64_t n : {3, 0, 1})
      compare_with_reference(program, graph, data_for({graph, {{"n", n}}, 1, false}), fmt::format("n={}", n));
  }
}

// A segment with as many buffers as the device allows was divided into parts, whose results need another one, and
// refused.
TEST(FoundByFuzzing, PartsNeedABufferOfTheirOwn) {
  const ir::Graph graph = must(ir::parse(R"(graph "g" {
  %0 = input "x" : u8[2]
  %1 = input "z" : u32[2]
  %2 = cummax axis=0 exclusive=false reverse=true %1 : u32[2]
  %3 = cast %0 : u32[2]
  output "y" = %3
  output "y1" = %2
})"));
  Build how;
  how.device = &device_with_low_limits();
  how.tuning.splits = 3;
  compare_with_reference(compile_graph(graph, how), graph, data_for({graph, {}, 1, false}), "four buffers");
}

// Views were never stored: an op that reads more values through them than the device has buffers was refused.
TEST(FoundByFuzzing, MoreValuesBehindViewsThanBuffers) {
  const char* const texts[] = {R"(graph "g" {
  %0 = input "a" : f32[3, 5]
  %1 = input "b" : f32[1, 5]
  %2 = input "c" : f32[4, 5]
  %3 = input "d" : f32[8, 5]
  %4 = concat axis=0 %0 %1 %2 : f32[8, 5]
  %5 = add %4 %3 : f32[8, 5]
  output "y" = %5
})",
                               R"(graph "g" {
  %0 = input "a" : i32[3, 5]
  %1 = input "b" : i32[1, 5]
  %2 = input "c" : i32[4, 5]
  %3 = input "d" : i32[2, 5]
  %4 = input "e" : i32[7, 5]
  %5 = concat axis=0 %0 %1 %2 %3 %4 %0 : i32[20, 5]
  %6 = reduce_sum axes=[0] %5 : i32[5]
  output "y" = %5
  output "s" = %6
})"};
  for (const char* const text : texts) {
    const ir::Graph graph = must(ir::parse(text));
    for (const bool fusion : {true, false}) {
      Build how;
      how.device = &device_with_low_limits();
      how.fusion = fusion;
      compare_with_reference(compile_graph(graph, how), graph, data_for({graph, {}, 1, false}), "four buffers");
    }
  }
}

// Tiles that read positions as vectors: those of other elements that they choose cannot be read so.
TEST(FoundByFuzzing, PositionsThatCrossAForcedTile) {
  const char* const texts[] = {R"(graph "g" {
  %0 = input "was3" : i32[4, 2, 2, 65, 1]
  %1 = input "index2 5" : i32[4, 2, 8, 1, 1]
  %2 = take_along axis=2 %0 %1 : i32[4, 2, 8, 65, 1]
  output "y1" = %2
})",
                               R"(graph "g" {
  %0 = input "was5" : bool[4, 33, 31]
  %1 = input "x2" : bool[2, 33, 31]
  %2 = input "index5 3" : u32[2]
  %3 = scatter mode=set %0 %2 %1 : bool[4, 33, 31]
  output "y2" = %3
})",
                               R"(graph "g" {
  %0 = input "index1 8" : i64[3]
  %1 = div %0 %0 : i64[3]
  %2 = input "x10" : i64[8, 3]
  %3 = dot batch_a=[0] batch_b=[1] contract_a=[] contract_b=[] %1 %2 : i64[3, 8]
  output "y3" = %3
})"};
  for (const char* text : texts) {
    const ir::Graph graph = must(ir::parse(text));
    for (const std::optional<int> vector_bytes : {std::optional<int>(), std::optional<int>(4)}) {
      Build how;
      how.tuning.tiled = true;
      how.tuning.vector_bytes = vector_bytes;
      compare_with_reference(compile_graph(graph, how), graph, data_for({graph, {}, 1, false}), text);
    }
  }
}

// An item of two bytes, which begins inside a word as often as not, was loaded as the word that it begins in.
TEST(FoundByFuzzing, ItemsOfLessThanAWord) {
  for (const char* const type : {"f32", "i32"}) {
    const std::string text = fmt::format(R"(graph "g" {{
  %0 = input "x" : i8[n, 1]
  %1 = cast %0 : {}[n, 1]
  output "y" = %1
}})",
                                         type);
    const ir::Graph graph = must(ir::parse(text));
    Build how;
    how.tuning.vector_bytes = 4;
    const Executable program = compile_graph(graph, how);
    for (const std::int64_t n : {1, 2, 3, 6, 7, 126}) {
      const SymbolValues sizes = {{"n", n}};
      compare_with_reference(program, graph, data_for({graph, sizes, 1, false}), fmt::format("{} n={}", type, n));
    }
  }
}

// SwiftShader's compiler did not come to an end with the branches of sixteen elements, and took gigabytes meanwhile: of
// integer division, of rounding to bf16, of 64-bit integers as pairs of words.
TEST(FoundByFuzzing, CompilersComeToAnEnd) {
  const std::pair<const char*, schedule::Tuning> all[] = {
      {R"(graph "g" {
  %0 = input "x0" : i8[16, 65]
  %1 = reduce_min axes=[0, 1] %0 : i8[]
  %2 = rem %1 %0 : i8[16, 65]
  output "y" = %2
})",
       {}},
      {R"(graph "random 391" {
  %0 = input "x0" : bf16[64, 4, 1]
  %1 = expm1 %0 : bf16[64, 4, 1]
  %2 = cummax axis=0 exclusive=true reverse=true %0 : bf16[64, 4, 1]
  %3 = sign %1 : bf16[64, 4, 1]
  %4 = slice starts=[4, 1, 0] steps=[1, -2, 1] %1 : bf16[1, 1, 1]
  %5 = constant {0.25} : bf16[]
  %6 = constant {3.75} : bf16[]
  %7 = clamp %4 %5 %6 : bf16[1, 1, 1]
  %8 = pow %7 %7 : bf16[1, 1, 1]
  output "y1" = %8
  output "y2" = %3
  output "y3" = %2
})",
       {.reduction_threads = 1}},
      {R"(graph "random 528" {
  dim n0 min=8 max=32 multiple=4
  %0 = input "x0" : i64[n0, n1]
  %1 = rem %0 %0 : i64[n0, n1]
  %2 = cummin axis=1 exclusive=true reverse=true %1 : i64[n0, n1]
  %3 = sign %1 : i64[n0, n1]
  %4 = reverse axes=[1] %3 : i64[n0, n1]
  %5 = mul %2 %4 : i64[n0, n1]
  %6 = slice starts=[0, 0] steps=[1, 1] %2 : i64[n0, n1]
  output "y1" = %6
  output "y2" = %5
})",
       {.reduction_threads = 32}},
  };
  for (const auto& [text, tuning] : all) {
    const ir::Graph graph = must(ir::parse(text));
    for (const Device* on : {&device(), &device_without_subgroups()}) {
      Build how;
      how.device = on;
      how.tuning = tuning;
      how.numerics = Numerics::strict;
      compare_with_reference(compile_graph(graph, how), graph, data_for({graph, {{"n0", 8}, {"n1", 5}}, 1, false}),
                             "no branches");
    }
  }
}

struct Resized {
  const char* name;
  const char* text;
  std::vector<SymbolValues> impossible;  ///< sizes at which the plan for any sizes has a kernel that cannot be
  std::vector<SymbolValues> others;
};

// A plan is made for the sizes that stand for symbols. At others a kernel of it may be impossible: the run was refused.
TEST(FoundByFuzzing, PlansForOtherSizes) {
  const Resized all[] = {
      {"a fold beside rows of nothing",
       R"(graph "g" {
  dim n2 min=0 max=9223372036854775807 multiple=4
  %0 = input "x2" : u64[2, 1, n2]
  %1 = shift_left %0 %0 : u64[2, 1, n2]
  %2 = argmax axes=[0] %1 : i32[1, n2]
  output "y" = %1
  output "y1" = %2
})",
       {{{"n2", 0}}},
       {{{"n2", 4}}, {{"n2", 32}}}},
      {"a fold of nothing",
       R"(graph "g" {
  %0 = input "x1" : i64[1, 2, n2, 1]
  %1 = input "x3" : i64[1, 2, n2, 1]
  %2 = mod %0 %1 : i64[1, 2, n2, 1]
  %3 = reduce_min axes=[0, 1, 3] %1 : i64[n2]
  output "y" = %2
  output "y3" = %3
})",
       {{{"n2", 0}}},
       {{{"n2", 1}}, {{"n2", 5}}}},
      {"one element to choose from",
       R"(graph "g" {
  %0 = input "was1" : u32[1, n1, 1]
  %1 = input "index1 2" : i64[1, 2, 1]
  %2 = take_along axis=1 %0 %1 : u32[1, 2, 1]
  %3 = reduce_min axes=[0, 1, 2] %2 : u32[]
  %4 = input "index28 3" : i32[]
  %5 = gather axis=1 %1 %4 : i64[1, 1]
  output "y" = %5
  output "y1" = %3
})",
       {{{"n1", 1}}},
       {{{"n1", 2}}, {{"n1", 9}}}},
      {"an odd number of rows",
       R"(graph "g" {
  %0 = input "was5" : u8[1, n1, 1, 2]
  %1 = cumsum axis=1 exclusive=true reverse=false %0 : u8[1, n1, 1, 2]
  %2 = reshape %1 : u8[1, 1, 2, n1, 1]
  output "y1" = %2
})",
       {{{"n1", 65}}, {{"n1", 7}}},
       {{{"n1", 64}}}},
  };
  for (const Resized& one : all) {
    const ir::Graph graph = must(ir::parse(one.text));
    const Executable program = compile_graph(graph, {});
    const auto run = [&](const SymbolValues& sizes) {
      compare_with_reference(program, graph, data_for({graph, sizes, 1, false}),
                             fmt::format("{}, {}", one.name, sizes.begin()->second));
      return specialization_of(program, sizes)->other;
    };
    const runtime::Planned* second = nullptr;
    for (const SymbolValues& sizes : one.impossible) {
      const auto other = run(sizes);
      ASSERT_NE(other, nullptr) << one.name << ": the first plan serves these sizes; the graph shows nothing";
      EXPECT_TRUE(second == nullptr || second == other.get()) << one.name << ": each size has a plan of its own";
      second = other.get();
      EXPECT_GT(must(program.memory({sizes.begin(), sizes.end()})).outputs, 0U) << one.name;
    }
    for (const SymbolValues& sizes : one.others) EXPECT_EQ(run(sizes), nullptr) << one.name;
  }
}

// Without an execution mode that keeps NaN, NVIDIA's compiler made the smaller number of a comparison in which a NaN
// is. It is told by its bits then, and only then.
TEST(FoundByFuzzing, NaNIsToldByItsBits) {
  const ir::Graph graph = must(ir::parse(R"(graph "g" {
  %0 = input "x" : bf16[3, 32]
  %1 = constant {1} : bf16[]
  %2 = constant {15} : bf16[]
  %3 = clamp %0 %1 %2 : bf16[3, 32]
  output "y" = %3
})"));
  for (const Device* on : {&device(), &device_with_low_limits()}) {
    Build how;
    how.device = on;
    const Executable program = compile_graph(graph, how);
    compare_with_reference(program, graph, data_for({graph, {}, 1, true}), "clamp");
    const std::string text = must(program.explain(Stage::glsl));
    const bool kept = text.find("SPV_KHR_float_controls") != std::string::npos;
    EXPECT_EQ(text.find("f32_min_bits(f32_max_bits(") != std::string::npos, !kept) << text;
  }
}

// Rows are chosen among the updates, of which a symbol may say that there are none.
TEST(FoundByFuzzing, NoUpdatesAreScattered) {
  const Tensor base = Tensor::input("base", DType::f32, {3, 2}), truths = gt(base, Tensor::scalar(DType::f32, 0)),
               positions = Tensor::input("index3", DType::i32, {Dim::any("n")}),
               updates = Tensor::input("updates", DType::f32, {Dim::any("n"), 2});
  std::vector<Tensor> results;
  for (const char* const mode : {"set", "add", "mul", "max", "min"})
    results.push_back(base.scatter(positions, updates * 2.0, mode) + 1.0);
  results.push_back(truths.scatter(positions, Tensor::input("truths", DType::boolean, {Dim::any("n"), 2})));
  const ir::Graph graph = graph_of(results);
  for (const bool fusion : {true, false}) {
    const Executable program = compile_graph(graph, {.fusion = fusion});
    for (const std::int64_t n : {4, 0, 1})
      compare_with_reference(program, graph, data_for({graph, {{"n", n}}, 3, false}), fmt::format("{} updates", n));
  }
}

// The largest size that there is, of values that another axis leaves without elements.
TEST(FoundByFuzzing, NothingOfTheLargestSize) {
  const Tensor rows = Tensor::input("rows", DType::f32, {Dim::any("n"), Dim::any("m")});
  const ir::Graph graph = graph_of({sin(rows) + 1.0, rows.transpose() * 2.0, rows.cumsum(1)});
  const Executable program = compile_graph(graph, {});
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{kMost, 0},     {kMost / 2, 0}, {0, kMost},
                                                         {1LL << 40, 0}, {0, 1 << 30},   {3, 4}};
  for (const auto& [n, m] : sizes)
    compare_with_reference(program, graph, data_for({graph, {{"n", n}, {"m", m}}, 3, false}),
                           fmt::format("{}, {}", n, m));
}

// Positions are not divided by what is left of 2^40 in 32 bits, which is 0.
TEST(FoundByFuzzing, NothingOfASizeThat32BitsDoNotHold) {
  const Tensor x = Tensor::input("x", DType::f32, {Dim::any("n"), Dim::any("m"), 4});
  const ir::Graph graph =
      graph_of({x.permute({2, 0, 1}) + 1.0, x.reshape({Dim::any("n"), Dim::any("m"), 2, 2}).permute({2, 1, 3, 0})});
  for (const bool fusion : {true, false}) {
    const Executable program = compile_graph(graph, {.fusion = fusion});
    for (const std::int64_t large : {std::int64_t{1} << 32, std::int64_t{1} << 40, (std::int64_t{1} << 40) + 3}) {
      compare_with_reference(program, graph, data_for({graph, {{"n", large}, {"m", 0}}, 3, false}), "large n");
      compare_with_reference(program, graph, data_for({graph, {{"n", 0}, {"m", large}}, 3, false}), "large m");
    }
  }
}

// Sizes that stand for others are not below the least one, however long that takes to find.
TEST(FoundByFuzzing, NothingOfALargeLeastSize) {
  const Tensor rows = Tensor::input("rows", DType::f32, {Dim::any("n", {.min = std::int64_t{1} << 31}), Dim::any("m")});
  const ir::Graph graph = graph_of({sin(rows) + 1.0});
  const Executable program = compile_graph(graph, {});
  for (const std::int64_t n : {(std::int64_t{1} << 31) + 5, std::int64_t{1} << 33, std::int64_t{1} << 35})
    compare_with_reference(program, graph, data_for({graph, {{"n", n}, {"m", 0}}, 3, false}), fmt::format("{}", n));
}

// Sizes of a bucket that stand for others are not larger than can be counted.
TEST(FoundByFuzzing, NothingBesideALargeSize) {
  const Tensor x = Tensor::input("x", DType::u64, {Dim::any("n"), Dim::any("m"), Dim::any("k")});
  const ir::Graph graph = graph_of({x + 1, x.cast(DType::f32)});
  const Executable program = compile_graph(graph, {});
  for (const std::int64_t n : {std::int64_t{1} << 54, std::int64_t{1} << 33, std::int64_t{1} << 30, std::int64_t{5}})
    compare_with_reference(program, graph, data_for({graph, {{"n", n}, {"m", 2}, {"k", 0}}, 3, false}),
                           fmt::format("n = {}", n));
}

class FoundGraphs : public testing::TestWithParam<Found> {};

TEST_P(FoundGraphs, AreRight) {
  const ir::Graph graph = must(ir::parse(GetParam().text));
  for (const bool fusion : {true, false}) {
    const Executable program = compile_graph(graph, {.fusion = fusion});
    for (const std::uint64_t seed : {1, 2, 3})
      compare_with_reference(program, graph, data_for({graph, {}, seed, false}), GetParam().name);
  }
}

INSTANTIATE_TEST_SUITE_P(FoundByFuzzing, FoundGraphs, testing::ValuesIn(kFound),
                         [](const auto& found) { return std::string(found.param.name); });

}  // namespace
}  // namespace vkfuse::test
