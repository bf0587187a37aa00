// Random sequences of calls of the public API, right ones and wrong ones: whatever comes back is a value or a sentence,
// and every number that can be known is right.
#include <gtest/gtest.h>

#include <cstring>

#include "support/device.hpp"
#include "support/fuzz.hpp"
#include "support/fuzzer.hpp"
#include "support/random.hpp"
#include "vkfuse/vkfuse.hpp"

namespace vkfuse::test {
namespace {

constexpr const char* kProgram = R"(graph "calls" {
  dim n min=0 max=64 multiple=1
  %0 = input "x" : i32[n]
  %1 = input "w" : i32[n]
  %2 = constant {3} : i32[]
  %3 = mul %0 %2 : i32[n]
  %4 = add %3 %1 : i32[n]
  %5 = reduce_sum axes=[0] %4 : i32[]
  output "y" = %4
  output "sum" = %5
})";

/// A buffer and what it holds, as far as anybody can say.
struct Held {
  Buffer buffer;
  std::vector<std::optional<std::int32_t>> words;
  int busy = 0;  ///< runs that have not been waited for
};

class Caller {
 public:
  explicit Caller(Random random) : random_(random) {}

  /// What went wrong first; empty if nothing did.
  std::string run(int calls) {
    programs_.push_back(must(compile_text(device(), kProgram)));
    for (int i = 0; i < calls && fault_.empty(); ++i) {
      switch (random_.below(12)) {
        case 0: allocate(); break;
        case 1: drop(); break;
        case 2:
        case 3: write(); break;
        case 4:
        case 5: read(); break;
        case 6:
        case 7:
        case 8: submit(); break;
        case 9: wait(); break;
        case 10: run_on_host(); break;
        default: ask(); break;
      }
    }
    while (fault_.empty() && !runs_.empty()) wait();
    for (std::size_t i = 0; i < held_.size() && fault_.empty(); ++i) check(i);
    return fault_;
  }

  int accepted = 0, refused = 0;

 private:
  struct Run {
    Submission submission;
    std::vector<std::size_t> busy;
  };

  /// Counts it, and looks at the sentence.
  template <typename T>
  bool taken(const Result<T>& result, const char* what, bool must_be_taken) {
    ++(result.ok() ? accepted : refused);
    if (result.ok()) return true;
    const Error& error = result.error();
    const bool sentence = !error.message.empty() && error.message.back() == '.' && error.code != ErrorCode::internal;
    if (!sentence) fault_ = fmt::format("{}: no sentence: {}", what, error.text());
    if (must_be_taken) fault_ = fmt::format("{} was refused: {}", what, error.text());
    return false;
  }

  void allocate() {
    if (held_.size() > 12) return;
    const std::uint64_t words = random_.chance(10) ? 0 : random_.below(80);
    const Result<Buffer> made = device().allocate(words * 4);
    if (!taken(made, "allocate", words > 0)) return;
    held_.push_back({*made, {}, 0});
    held_.back().words.resize(static_cast<std::size_t>(words));
  }

  /// A handle goes; a run that uses the buffer goes on.
  void drop() {
    if (held_.empty()) return;
    Held& one = held_[random_.below(held_.size())];
    one.buffer = Buffer();
    one.words.clear();
  }

  void settle(std::size_t index) {
    while (held_[index].busy > 0) wait();
  }

  void write() {
    if (held_.empty()) return;
    const std::size_t index = random_.below(held_.size());
    settle(index);
    Held& one = held_[index];
    const std::size_t first = random_.below(40);
    std::vector<std::int32_t> words(random_.below(60));
    for (std::int32_t& word : words) word = static_cast<std::int32_t>(random_.word());
    const bool fits = one.buffer.state() != nullptr && first + words.size() <= one.words.size();
    if (!taken(one.buffer.write(std::as_bytes(std::span(words)), first * 4), "write", fits) ||
        first + words.size() > one.words.size())
      return;
    for (std::size_t i = 0; i < words.size(); ++i) one.words[first + i] = words[i];
  }

  void read() {
    if (held_.empty()) return;
    const std::size_t index = random_.below(held_.size());
    settle(index);
    const std::size_t first = random_.below(40);
    std::vector<std::int32_t> words(random_.below(60));
    Held& one = held_[index];
    const bool fits = one.buffer.state() != nullptr && first + words.size() <= one.words.size();
    if (!taken(one.buffer.read(std::as_writable_bytes(std::span(words)), first * 4), "read", fits)) return;
    for (std::size_t i = 0; i < words.size() && first + i < one.words.size(); ++i) compare(one, first + i, words[i]);
  }

  void check(std::size_t index) {
    Held& one = held_[index];
    if (one.buffer.state() == nullptr || one.words.empty()) return;
    std::vector<std::int32_t> words(one.words.size());
    if (!taken(one.buffer.read(std::as_writable_bytes(std::span(words))), "read", true)) return;
    for (std::size_t i = 0; i < words.size(); ++i) compare(one, i, words[i]);
  }

  void compare(const Held& one, std::size_t at, std::int32_t got) {
    if (one.words[at] && *one.words[at] != got && fault_.empty())
      fault_ = fmt::format("Word {} of a buffer is {}, and {} is right.", at, got, *one.words[at]);
  }

  [[nodiscard]] const Executable& program() { return programs_[random_.below(programs_.size())]; }

  void submit() {
    if (held_.empty()) return;
    std::size_t picked[4];
    for (std::size_t& index : picked) index = random_.below(held_.size());
    const auto [x, w, y, sum] = std::tuple(picked[0], picked[1], picked[2], picked[3]);
    for (const std::size_t index : picked) settle(index);
    const std::size_t n = random_.below(70);
    Bindings bindings;
    bindings.symbols = {{"n", static_cast<std::int64_t>(n)}};
    bindings.inputs = {{"x", held_[x].buffer}, {"w", held_[w].buffer}};
    bindings.outputs = {{"y", held_[y].buffer}, {"sum", held_[sum].buffer}};
    std::string wrong;
    switch (random_.below(20)) {
      case 0: bindings.inputs.erase("w"), wrong = ", no w"; break;
      case 1: bindings.symbols.clear(), wrong = ", no n"; break;
      case 2: bindings.symbols["m"] = 4, wrong = ", a symbol m"; break;
      case 3: bindings.symbols["n"] = -1, wrong = ", n = -1"; break;
      case 4: bindings.outputs["z"] = held_[y].buffer, wrong = ", a result z"; break;
      case 5: bindings.donated = {"nobody"}, wrong = ", nobody donated"; break;
      case 6: bindings.inputs["v"] = held_[x].buffer, wrong = ", an input v"; break;
      default: break;
    }
    const auto has = [&](std::size_t index, std::size_t words) {
      return held_[index].buffer.state() != nullptr && held_[index].words.size() >= words;
    };
    const bool right = wrong.empty() && n <= 64 && has(x, n) && has(w, n) && has(y, n) && has(sum, 1);
    const bool apart = y != x && y != w && y != sum && sum != x && sum != w;
    const Result<Submission> submission = program().submit(bindings);
    if (!taken(submission, "submit", right && apart && n > 0)) return;
    if (!right) {
      const auto held = [&](std::size_t index) {
        return fmt::format("{}{}", held_[index].words.size(), held_[index].buffer.state() == nullptr ? " dropped" : "");
      };
      fault_ = fmt::format(
          "A submission with n = {} was accepted that cannot be right: x of {} words, w of {}, y of {}, sum of {}{}.",
          n, held(x), held(w), held(y), held(sum), wrong);
      return;
    }
    std::optional<std::uint32_t> total = 0;
    std::vector<std::optional<std::int32_t>> results(n);
    for (std::size_t i = 0; i < n; ++i) {
      const auto& a = held_[x].words[i];
      const auto& b = held_[w].words[i];
      if (a && b)
        results[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(*a) * 3 + static_cast<std::uint32_t>(*b));
      total = total && results[i] ? std::optional(*total + static_cast<std::uint32_t>(*results[i])) : std::nullopt;
    }
    for (std::size_t i = 0; i < n; ++i) held_[y].words[i] = results[i];
    held_[sum].words[0] = total ? std::optional(static_cast<std::int32_t>(*total)) : std::nullopt;
    runs_.push_back({*submission, {x, w, y, sum}});
    for (const std::size_t index : picked) ++held_[index].busy;
  }

  /// For any of the runs, twice.
  void wait() {
    if (runs_.empty()) return;
    const std::size_t index = random_.below(runs_.size());
    if (!taken(runs_[index].submission.wait(), "wait", true) ||
        !taken(runs_[index].submission.wait(), "wait again", true))
      return;
    for (const std::size_t used : runs_[index].busy) --held_[used].busy;
    runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(index));
  }

  void run_on_host() {
    const std::size_t n = random_.below(70);
    const std::vector<std::int32_t> x(n, 5), w(random_.chance(80) ? n : n + 1, -7);
    const bool right = n > 0 && n <= 64 && w.size() == n;
    const auto outputs = program().run({{"x", x}, {"w", w}});
    if (!taken(outputs, "run", right)) return;
    if (w.size() != n || n > 64) {
      fault_ = fmt::format("A run on {} and {} elements was accepted.", n, w.size());
      return;
    }
    std::int32_t sum = 0;
    std::memcpy(&sum, outputs->at("sum").bytes.data(), sizeof sum);
    if (sum != 8 * static_cast<std::int32_t>(n)) fault_ = fmt::format("The sum of {} elements is {}.", n, sum);
  }

  void ask() {
    const auto n = static_cast<std::int64_t>(random_.below(100)) - 10;
    switch (random_.below(6)) {
      case 0: static_cast<void>(taken(program().memory({{"n", n}}), "memory", n >= 0 && n <= 64)); break;
      case 1: static_cast<void>(taken(program().memory({{"q", n}}), "memory of q", false)); break;
      case 2:
        static_cast<void>(
            taken(program().explain(static_cast<Stage>(random_.below(5)), static_cast<int>(n)), "explain", n == 0));
        break;
      case 3:
        if (programs_.size() < 4) {
          const Result<Executable> other = compile_text(device(), kProgram);
          if (taken(other, "compile", true)) programs_.push_back(*other);
        }
        break;
      case 4:
        if (programs_.size() > 1) programs_.erase(programs_.begin());  // its runs may still be under way
        break;
      default: {
        std::string text = kProgram;
        text[random_.below(text.size())] = static_cast<char>(32 + random_.below(95));
        static_cast<void>(taken(compile_text(device(), text), "compile of a damaged text", false));
      }
    }
  }

  Random random_;
  std::vector<Executable> programs_;
  std::vector<Held> held_;
  std::vector<Run> runs_;
  std::string fault_;
};

TEST(Calls, AnySequenceGivesValuesOrSentences) {
  int accepted = 0, refused = 0;
  for (const std::uint64_t seed : seeds_from(1, 12)) {
    Caller caller{Random(seed)};
    const std::string fault = caller.run(150);
    EXPECT_TRUE(fault.empty()) << fault << "\n" << replay_line(seed, "Calls.*");
    accepted += caller.accepted;
    refused += caller.refused;
  }
  std::printf("%d calls accepted, %d refused\n", accepted, refused);
  EXPECT_GT(accepted, 100);
  EXPECT_GT(refused, 50);
}

/// A sequence that the bytes choose.
bool runs(const std::string& bytes) {
  Caller caller{Random(std::string_view(bytes))};
  const std::string wrong = caller.run(static_cast<int>(std::min<std::size_t>(bytes.size() / 4, 200)));
  if (!wrong.empty()) fault(wrong);
  return caller.accepted > 1;
}

}  // namespace
}  // namespace vkfuse::test

VKFUSE_FUZZER(Calls, vkfuse::test::runs, nullptr, 40)
