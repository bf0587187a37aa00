// Rows that are written where data says: into the buffer of what they are written into, and nothing else of it.
#include <gtest/gtest.h>

#include <cstring>

#include "support/compare.hpp"
#include "vkfuse/ops.hpp"

namespace vkfuse::test {
namespace {

Tensor integers(const char* name, std::int64_t below, const Shape& shape, int less) {
  return Tensor::input(name + std::to_string(below), DType::i32, shape) - less;
}

struct Written {
  const char* name;
  Shape base;
  int axis;
  std::int64_t count;
  std::size_t starts;  ///< axes that have a start each
  friend void PrintTo(const Written& written, std::ostream* out) { *out << written.name; }
};

class UpdatedRows : public testing::TestWithParam<Written> {
 protected:
  [[nodiscard]] Shape rows() const {
    Shape shape = GetParam().base;
    shape[static_cast<std::size_t>(GetParam().axis)] = Dim(GetParam().count);
    return shape;
  }
  [[nodiscard]] std::int64_t size() const { return GetParam().base[static_cast<std::size_t>(GetParam().axis)].size(); }
  /// From some before the first row to some after the last.
  [[nodiscard]] Tensor starts() const {
    const Shape shape(GetParam().base.begin(),
                      GetParam().base.begin() + static_cast<std::ptrdiff_t>(GetParam().starts));
    return integers("index", size() + 9, shape, 4);
  }
};

void compare(const ir::Graph& graph, const std::string& what, const Build& how = {}) {
  for (const std::uint64_t seed : {3U, 4U, 5U, 6U}) {
    const Executable program = compile_graph(graph, how);
    compare_with_reference(program, graph, data_for({graph, {}, seed, false}), what);
  }
}

TEST_P(UpdatedRows, AreWrittenAsTheReferenceWritesThem) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i8, DType::i64, DType::boolean}) {
    for (const bool circular : {false, true}) {
      const std::string what = fmt::format("{} of {}{}", GetParam().name, name_of(dtype), circular ? ", circular" : "");
      const Tensor base = Tensor::input("base", dtype, GetParam().base),
                   rows = Tensor::input("rows", dtype, this->rows());
      compare(graph_of({base.update_rows(starts(), rows, GetParam().axis, circular)}), what);
    }
  }
}

TEST_P(UpdatedRows, AreComputedWhereTheyAreWritten) {
  const Tensor base = Tensor::input("base", DType::f32, GetParam().base);
  const Tensor rows = exp(Tensor::input("rows", DType::f32, this->rows())) * 2.0;
  const Tensor at = starts(), written = base.update_rows(at + 1, rows, GetParam().axis);
  const ir::Graph graph = graph_of({written});
  const Executable program = compile_graph(graph, {});
  EXPECT_TRUE(are_kernels(static_cast<std::size_t>(program.kernel_count()), 1));
  compare(graph, GetParam().name);
  compare(graph, GetParam().name, {.fusion = false});
  compare(graph, GetParam().name, {.device = &device_with_low_limits()});
  // What reads the result reads memory, also that of a base that a kernel has just made.
  compare(graph_of({exp(written).sum({0}), (base * 3.0).update_rows(at, rows, GetParam().axis)}), "read again");
}

TEST_P(UpdatedRows, MoveTheirOwnBytesAlone) {
  const Tensor base = Tensor::input("base", DType::f32, GetParam().base);
  const Tensor rows = Tensor::input("rows", DType::f32, this->rows());
  std::int64_t bytes = 4;
  for (const Dim& dim : this->rows()) bytes *= dim.size();
  const std::int64_t moved =
      bytes_moved(compile_graph(graph_of({base.update_rows(starts(), rows, GetParam().axis)}), {}));
  EXPECT_GE(moved, 2 * bytes);
  EXPECT_LE(moved, 2 * bytes + 4 * 64);  // and the starts
}

INSTANTIATE_TEST_SUITE_P(
    Differential, UpdatedRows,
    testing::Values(Written{"one_row_of_a_cache", {2, 3, 50, 16}, 2, 1, 0},
                    Written{"a_row_of_each", {5, 3, 50, 16}, 2, 1, 1}, Written{"several_rows", {3, 40, 2, 24}, 1, 7, 1},
                    Written{"rows_of_odd_size", {3, 11, 7}, 1, 3, 1}, Written{"single_elements", {200}, 0, 3, 0},
                    Written{"an_element_of_each", {60, 33}, 1, 1, 1}, Written{"all_rows", {4, 9}, 0, 4, 0},
                    Written{"no_rows", {4, 9}, 0, 0, 0}, Written{"one_element", {1}, 0, 1, 0},
                    Written{"a_start_of_each_head", {2, 3, 20, 8}, 2, 5, 2}),
    [](const auto& one) { return std::string(one.param.name); });

/// Rows with a position each, in an order that data has: some before the first row and after the last, which are left
/// out, all of them different.
class PlacedRows : public testing::TestWithParam<Written> {};

TEST_P(PlacedRows, AreWrittenAsTheReferenceWritesThem) {
  const Written& c = GetParam();
  const auto axis = static_cast<std::size_t>(c.axis);
  Shape shape = c.base;
  shape[axis] = Dim(c.count);
  const Shape starts(shape.begin(), shape.begin() + c.axis + 1);
  const std::int64_t size = c.base[axis].size();
  for (const DType positions : {DType::i32, DType::i64, DType::u32}) {
    // Numbers 3 apart, modulo one that 3 does not divide, from some below 0 on: no two are equal. Of u32 those wrap.
    const std::int64_t most = std::max(size + 5, c.count) | 1, modulus = most % 3 == 0 ? most + 2 : most;
    const Tensor first = Tensor::input("index7", DType::i32, {});
    const Tensor ramp = Tensor::iota(DType::i32, starts, c.axis) * Tensor::scalar_int(DType::i32, 3) + first;
    const Tensor at = (rem(ramp, Tensor::scalar_int(DType::i32, modulus)) - 2).cast(positions);
    for (const DType dtype : {DType::f32, DType::f16, DType::i8, DType::boolean}) {
      const Tensor base = Tensor::input("base", dtype, c.base), rows = Tensor::input("rows", dtype, shape);
      compare(graph_of({base.update_rows(at, rows, c.axis)}), fmt::format("{} of {}", c.name, name_of(dtype)));
    }
    const Tensor base = Tensor::input("base", DType::f32, c.base), rows = Tensor::input("rows", DType::f32, shape);
    const Tensor written = base.update_rows(at, exp(rows) * 2.0, c.axis);
    const ir::Graph graph = graph_of({written});
    EXPECT_TRUE(are_kernels(static_cast<std::size_t>(compile_graph(graph, {}).kernel_count()), 1));
    compare(graph, c.name, {.fusion = false});
    compare(graph, c.name, {.device = &device_with_low_limits()});
    compare(graph_of({exp(written).sum({0})}), "read again");
  }
}

INSTANTIATE_TEST_SUITE_P(Differential, PlacedRows,
                         testing::Values(Written{"rows_of_a_pool", {64, 3, 16}, 0, 5, 0},
                                         Written{"elements", {70}, 0, 11, 0}, Written{"of_each", {3, 20, 6}, 1, 4, 0},
                                         Written{"more_than_there_are", {6, 8}, 0, 13, 0},
                                         Written{"one_row", {40, 8}, 0, 1, 0}, Written{"no_rows", {4, 9}, 0, 0, 0},
                                         Written{"along_the_last_axis", {5, 33}, 1, 6, 0}),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(PlacedRowsOfSymbols, AreWrittenAtEverySize) {
  const Dim count = Dim::any("count", {.max = 20}), room = Dim::any("room", {.max = 50});
  const Tensor base = Tensor::input("base", DType::f32, {room, 8});
  const Tensor rows = Tensor::input("rows", DType::f32, {count, 8});
  const Tensor at = Tensor::iota(DType::i32, {count}, 0) * Tensor::scalar_int(DType::i32, 2) - 3;
  const ir::Graph graph = graph_of({base.update_rows(at, rows * 2.0, 0)});
  const Executable program = compile_graph(graph, {});
  for (const auto& [rooms, positions] : {std::pair(1, 1), std::pair(30, 5), std::pair(9, 20), std::pair(20, 0)}) {
    const SymbolValues sizes{{"room", rooms}, {"count", positions}};
    compare_with_reference(program, graph, data_for({graph, sizes, 5, false}),
                           fmt::format("room for {}, {} rows", rooms, positions));
  }
}

/// In the buffer of the base: everything that is not written stays, bit for bit, and nothing is copied.
TEST(UpdatedRowsInPlace, LeaveEverythingElse) {
  const Tensor base = Tensor::input("base", DType::u32, {8, 64, 32});
  const Tensor rows = Tensor::input("rows", DType::u32, {8, 2, 32}), starts = Tensor::input("starts", DType::i32, {8});
  const Executable program = compile_graph(graph_of({base.update_rows(starts, rows, 1)}), {});
  const Device& on = device();
  std::vector<std::uint32_t> held(8 * 64 * 32), fresh(8 * 2 * 32);
  for (std::size_t i = 0; i < held.size(); ++i) held[i] = static_cast<std::uint32_t>(i * 2654435761U);
  for (std::size_t i = 0; i < fresh.size(); ++i) fresh[i] = 7 * static_cast<std::uint32_t>(i) + 1;
  const auto filled = [&](const auto& data) {
    Buffer buffer = must(on.allocate(data.size() * sizeof(data[0])));
    EXPECT_TRUE(buffer.write(std::as_bytes(std::span(data))).ok());
    return buffer;
  };
  const Buffer cache = filled(held), new_rows = filled(fresh);
  std::vector<std::uint32_t> expected = held;
  for (std::int32_t step = 0; step < 40; ++step) {
    std::vector<std::int32_t> at(8);
    for (std::int32_t b = 0; b < 8; ++b) at[static_cast<std::size_t>(b)] = (step * 5 + b * 11) % 70 - 2;
    for (std::size_t b = 0; b < 8; ++b) {
      for (std::size_t r = 0; r < 2; ++r) {
        const std::size_t row = static_cast<std::size_t>(std::clamp(at[b], 0, 64)) + r;
        if (row >= 64) continue;
        std::copy_n(fresh.begin() + static_cast<std::ptrdiff_t>((b * 2 + r) * 32), 32,
                    expected.begin() + static_cast<std::ptrdiff_t>((b * 64 + row) * 32));
      }
    }
    Bindings bindings;
    bindings.inputs = {{"base", cache}, {"rows", new_rows}, {"starts", filled(at)}};
    if (step % 2 == 0) {
      bindings.outputs = {{"y", cache}};
    } else {
      bindings.donated = {"base"};
    }
    const Submission run = must(program.submit(bindings));
    ASSERT_TRUE(run.wait().ok());
    EXPECT_EQ(run.outputs().at("y").state(), cache.state()) << "donated, the result lies where the base lay";
  }
  std::vector<std::uint32_t> now(held.size());
  ASSERT_TRUE(cache.read(std::as_writable_bytes(std::span(now))).ok());
  EXPECT_EQ(now, expected);
}

/// A row that is a number of the kernel's text, and one that is the same for all elements.
TEST(UpdatedRowsOfNumbers, AreWrittenWhereDataSays) {
  for (const DType dtype : {DType::boolean, DType::f16, DType::f32}) {
    const Tensor base = Tensor::input("base", dtype, {1, 77}), at = integers("index", 85, {}, 4);
    compare(graph_of({base.update_rows(at, Tensor::scalar(dtype, 1).reshape({1, 1}), 1)}), std::string(name_of(dtype)));
    const Tensor one = Tensor::input("one", dtype, {});
    compare(graph_of({base.update_rows(at, one.broadcast_to({1, 5}), 1)}), std::string(name_of(dtype)));
  }
}

/// Symbols as batch, and as the number of rows: past the end they are left out at every size.
TEST(UpdatedRowsOfSymbols, AreWrittenAtEverySize) {
  const Dim batch = Dim::any("batch", {.max = 9}), count = Dim::any("count", {.max = 20});
  const Tensor base = Tensor::input("base", DType::f32, {batch, 12, 8});
  const Tensor rows = Tensor::input("rows", DType::f32, {batch, count, 8});
  const ir::Graph graph = graph_of({base.update_rows(integers("index", 14, {batch}, 1), rows * 2.0, 1)});
  const Executable program = compile_graph(graph, {});
  for (const auto& [sequences, positions] : {std::pair(1, 1), std::pair(3, 5), std::pair(9, 20), std::pair(2, 0)}) {
    const SymbolValues sizes{{"batch", sequences}, {"count", positions}};
    compare_with_reference(program, graph, data_for({graph, sizes, 5, false}),
                           fmt::format("{} sequences, {} rows", sequences, positions));
  }
}

/// Rows for a base that has room for some at other sizes, and beside them another result of the same kernel.
TEST(UpdatedRowsOfSymbols, WriteNothingWhereTheBaseIsEmpty) {
  const Tensor base = Tensor::input("base", DType::f32, {3, Dim::any("room", {.max = 900}), 40});
  const Tensor rows = exp(Tensor::input("rows", DType::f32, {3, 2, 40}));
  const ir::Graph graph = graph_of({base.update_rows(integers("index", 5, {3}, 1), rows, 1), rows});
  const Executable program = compile_graph(graph, {});
  for (const std::int64_t room : {0, 1, 5}) {
    const Data data = data_for({graph, {{"room", room}}, 5, false});
    compare_with_reference(program, graph, data, fmt::format("room for {}", room));
  }
}

/// Beside another result that has as many elements as the base.
TEST(UpdatedRowsOfOthers, WriteNothingWhereThereAreNoRows) {
  for (const bool circular : {false, true}) {
    const Tensor base = Tensor::input("base", DType::f32, {2, 4, 3}),
                 rows = Tensor::input("rows", DType::f32, {2, 0, 3});
    const Tensor written = base.update_rows(integers("index", 5, {2}, 1), rows, 1, circular);
    compare(graph_of({Tensor::input("x", DType::f32, {2, 4, 3}).cumprod(1), written}), "no rows");
  }
}

/// What rows are written into is a literal only after it was computed, or is a result that views another buffer.
TEST(UpdatedRowsOfOthers, AreWrittenIntoMemory) {
  const auto made = [](const char* nodes) {
    return must(ir::parse(fmt::format("graph \"g\" {{\n  %0 = input \"index9\" : i32[]\n{}}}", nodes)));
  };
  compare(made(R"(  %1 = constant {7} : f32[1]
  %2 = input "r" : f32[1]
  %3 = neg %1 : f32[1]
  %4 = update_rows axis=0 circular=true %3 %0 %2 : f32[1]
  output "u" = %4
)"),
          "a literal");
  compare(made(R"(  %1 = constant {7} : f32[1]
  %2 = input "r" : f32[4]
  %3 = neg %1 : f32[1]
  %4 = constant {5, -2, 0, 1} : i32[4]
  %5 = add %4 %0 : i32[4]
  %6 = update_rows axis=0 circular=false %3 %5 %2 : f32[1]
  output "u" = %6
)"),
          "a literal, by positions");
  compare(made(R"(  %1 = input "x" : f32[32]
  %2 = input "rows" : f32[2, 4]
  %3 = reshape %1 : f32[8, 4]
  %4 = update_rows axis=0 circular=false %3 %0 %2 : f32[8, 4]
  output "v" = %3
  output "u" = %4
)"),
          "a view of an input that is a result");
  compare(made(R"(  %1 = input "x" : f32[3, 8, 4]
  %2 = input "rows" : f32[3, 2, 4]
  %3 = update_rows axis=1 circular=true %1 %0 %2 : f32[3, 8, 4]
  %4 = reshape %3 : f32[24, 4]
  %5 = constant {3} : i32[]
  %6 = reshape %2 : f32[6, 4]
  %7 = update_rows axis=0 circular=false %4 %5 %6 : f32[24, 4]
  output "a" = %3
  output "b" = %4
  output "c" = %7
)"),
          "a view of a result");
}

TEST(UpdatedRowsErrors, SayWhatWasGiven) {
  const Tensor base = Tensor::input("base", DType::f32, {4, 6, 8}), start = Tensor::input("at", DType::i32, {});
  const auto refusal = [&](const Tensor& starts, const Shape& rows, int axis, bool circular = false) {
    const Tensor y = base.update_rows(starts, Tensor::input("rows", DType::f32, rows), axis, circular);
    return y.valid() ? std::string() : y.error().message;
  };
  EXPECT_EQ(refusal(start, {4, 7, 8}, 1), "'update_rows' writes 7 rows into the 6 that axis 1 of f32[4, 6, 8] has.");
  EXPECT_EQ(refusal(start, {4, 2, 7}, 1),
            "'update_rows' along axis 1 of f32[4, 6, 8] takes rows of shape [4, 2, 8], but they are f32[4, 2, 7].");
  EXPECT_EQ(refusal(Tensor::input("at", DType::i32, {4, 6}), {4, 2, 8}, 1),
            "'update_rows' along axis 1 of f32[4, 6, 8] takes one start, one for each position of the axes before it, "
            "or a position for each row of f32[4, 2, 8], but they are i32[4, 6].");
  EXPECT_EQ(refusal(Tensor::input("at", DType::i32, {4, 2}), {4, 2, 8}, 1, true),
            "'update_rows' that is circular takes starts, but a position for each row was given: i32[4, 2].");
  EXPECT_EQ(refusal(start, {4, Dim::any("n"), 8}, 1, true),
            "'update_rows' that is circular needs numbers along axis 1, but there are f32[4, 6, 8] and f32[4, n, 8].");
  EXPECT_NE(refusal(start, {4, 2, 8}, 3), "");
}

/// Two tables of unlike sizes at the same positions: each is clamped to its own.
TEST(Gathers, ClampToEachTable) {
  const Tensor at = integers("index", 60, {40}, 5);
  const Tensor large = Tensor::input("large", DType::f32, {50, 8}), small = Tensor::input("small", DType::f32, {10, 8});
  compare(graph_of({large.gather(at, 0) + small.gather(at, 0)}), "two tables");
  compare(graph_of({small.gather(at, 0) * large.gather(at, 0)}), "the smaller one first");
}

}  // namespace
}  // namespace vkfuse::test
