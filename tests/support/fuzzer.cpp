#include "support/fuzzer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>

#include "os/system.hpp"
#include "support/watch.hpp"

namespace vkfuse::test {
namespace {

constexpr unsigned kMostSeconds = 20;  // of one input, on a machine with much else to do

std::optional<long> number(const char* variable) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::atol(text);
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// What is being tried, for who handles a signal.
const std::string* current = nullptr;
std::string current_file;

/// Where somebody can take it up again.
void save_current() {
  if (current == nullptr) return;
  if (std::FILE* file = std::fopen(current_file.c_str(), "wb")) {
    std::fwrite(current->data(), 1, current->size(), file);
    std::fclose(file);
    std::fprintf(stderr, "The input is in '%s'.\nREPLAY: VKFUSE_FUZZ_INPUT=%s\n", current_file.c_str(),
                 current_file.c_str());
  }
}

/// What is wrong with it; empty if nothing is.
std::string try_input(const Fuzzer& fuzzer, const std::string& bytes, long& accepted) {
  current = &bytes;
  set_alarm(kMostSeconds);
  std::string wrong;
  try {
    accepted += fuzzer.run(bytes) ? 1 : 0;
  } catch (const std::exception& error) {
    wrong = error.what();
    save_current();
  }
  set_alarm(0);
  current = nullptr;
  return wrong;
}

std::string noise(std::mt19937_64& random) {
  std::string bytes(random() % 600, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace

void fault(const std::string& sentence) { throw std::runtime_error(sentence); }

std::string mutated_bytes(const std::string& bytes, const std::string& other, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : static_cast<std::size_t>(random() % limit); };
  static const std::vector<std::string> words = {"0",
                                                 "1",
                                                 "-1",
                                                 "2",
                                                 "7",
                                                 "65536",
                                                 "2147483648",
                                                 "4294967295",
                                                 "9223372036854775807",
                                                 "-9223372036854775808",
                                                 "nan",
                                                 "inf",
                                                 "[]",
                                                 "{}",
                                                 "\"",
                                                 "true"};
  std::string made = bytes;
  for (std::size_t changes = 1 + below(4); changes > 0; --changes) {
    const std::size_t at = below(made.size());
    const auto begin_of_line = [](const std::string& text, std::size_t near) {
      return near == 0 ? 0 : text.rfind('\n', near - 1) + 1;
    };
    const auto line_at = [&](const std::string& text, std::size_t near) {
      return text.substr(begin_of_line(text, near), text.find('\n', near) - begin_of_line(text, near) + 1);
    };
    switch (below(11)) {
      case 0: made.erase(at, 1 + below(8)); break;
      case 1: made.insert(at, 1, static_cast<char>(random())); break;
      case 2:
        if (!made.empty()) made[at] = static_cast<char>(random());
        break;
      case 3:
        if (!made.empty()) made[at] = static_cast<char>(made[at] ^ (1 << below(8)));
        break;
      case 4: made.insert(at, made.substr(below(made.size()), 1 + below(24))); break;
      case 5: made.insert(at, other.substr(below(other.size()), 1 + below(24))); break;
      case 6:
        if (below(4) == 0) made.resize(at);
        break;
      case 7:  // a number
      case 8: {
        const std::size_t digit = made.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const std::size_t end = std::min(made.find_first_not_of("0123456789", digit), made.size());
        made.replace(digit, end - digit, words[below(words.size())]);
        break;
      }
      case 9:
        made.insert(begin_of_line(made, at),
                    line_at(below(2) == 0 ? made : other, below(below(2) == 0 ? made.size() : other.size())));
        break;
      default: made.erase(begin_of_line(made, at), line_at(made, at).size()); break;
    }
  }
  return made;
}

void try_mutations(const Fuzzer& fuzzer) {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  current_file =
      (std::filesystem::path(testing::TempDir()) / fmt::format("vkfuse-{}-{}", test->name(), os::process_id()))
          .string();
  const Watch watch(save_current);
  long accepted = 0;
  if (const char* file = std::getenv("VKFUSE_FUZZ_INPUT"); file != nullptr && *file != '\0') {
    EXPECT_EQ(try_input(fuzzer, read(file), accepted), "");
    return;
  }
  std::vector<std::string> inputs;
  std::size_t of_folder = 0;
  if (fuzzer.inputs != nullptr) inputs = fuzzer.inputs();
  if (const char* folder = std::getenv("VKFUSE_FUZZ_INPUTS"); folder != nullptr && *folder != '\0') {
    constexpr std::uintmax_t kLargest = 1 << 15;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.file_size() <= kLargest) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) inputs.push_back(read(file));
    of_folder = files.size();
  }
  const auto begin = std::chrono::steady_clock::now();
  const std::optional<long> one = number("VKFUSE_SEED");
  if (!one) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      ASSERT_EQ(try_input(fuzzer, inputs[i], accepted), "") << "input " << i;
  }
  const long sound = accepted;
  const long cases = number("VKFUSE_FUZZ_CASES").value_or(fuzzer.cases);
  for (long seed = one.value_or(1); seed <= one.value_or(cases); ++seed) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    // What a folder holds is tried as often as all others.
    const auto pick = [&]() -> const std::string& {
      const bool file = of_folder > 0 && random() % 2 == 0;
      return inputs[file ? inputs.size() - 1 - random() % of_folder : random() % inputs.size()];
    };
    const std::string bytes = inputs.empty()
                                  ? noise(random)
                                  : (fuzzer.mutate != nullptr ? fuzzer.mutate : mutated_bytes)(pick(), pick(), random);
    ASSERT_EQ(try_input(fuzzer, bytes, accepted), "") << fmt::format(
        "REPLAY: VKFUSE_SEED={} with --gtest_filter={}.{}\n", seed, test->test_suite_name(), test->name());
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (one) return;
  std::printf("%zu inputs, %ld accepted, and %ld mutations, %ld accepted, in %.1f s\n", inputs.size(), sound, cases,
              accepted - sound, took.count());
  EXPECT_GE(accepted - sound, cases / 100);
}

}  // namespace vkfuse::test
