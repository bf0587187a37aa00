// Runs the importer on mutated models, for compilers without libFuzzer. Where the importer is built with
// -fsanitize-coverage=trace-pc, what reaches new code is kept and mutated further.
//
//     vkfuse-fuzz-onnx [--runs N] [--seconds N] [--seed N] [--save FOLDER] [FILE | FOLDER]...
//
// Folders are searched for models (.onnx), which are seeds. What brings the process down is
// left in FOLDER as crash.onnx.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "importer/mutate.hpp"
#include "importer/target.hpp"

namespace {

constexpr std::size_t kEdges = std::size_t{1} << 20;
unsigned char seen[kEdges];
std::size_t edges = 0;

// What is being tried, for the handlers below.
const std::string* current = nullptr;
std::string crash_file;

}  // namespace

extern "C" {
/// Called by instrumented code on every edge; not instrumented itself.
__attribute__((no_sanitize("address", "undefined"))) void __sanitizer_cov_trace_pc() {
  const auto place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0));
  unsigned char& byte = seen[(place ^ (place >> 20)) % kEdges];
  edges += byte == 0 ? 1 : 0;
  byte = 1;
}
/// Of the address sanitizer, where there is one.
void __attribute__((weak)) __sanitizer_set_death_callback(void (*)());
}

namespace vkfuse::onnx {
namespace {

void save_current() {
  if (current == nullptr || crash_file.empty()) return;
  if (std::FILE* file = std::fopen(crash_file.c_str(), "wb")) {
    std::fwrite(current->data(), 1, current->size(), file);
    std::fclose(file);
  }
}

void on_signal(int signal) {
  save_current();
  std::fprintf(stderr, signal == SIGALRM ? "An input took more than 20 seconds.\n" : "The process was brought down.\n");
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

struct Options {
  long runs = 20000;
  long seconds = 0;
  std::uint64_t seed = 1;
  std::string save;
  std::vector<std::filesystem::path> paths;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      options.paths.emplace_back(word);
      continue;
    }
    if (i + 1 == argc) return false;
    const std::string value = argv[++i];
    if (word == "--runs") options.runs = std::atol(value.c_str());
    else if (word == "--seconds") options.seconds = std::atol(value.c_str());
    else if (word == "--seed") options.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (word == "--save") options.save = value;
    else return false;
  }
  return true;
}

/// A model; nothing for other files and for large ones.
std::string read_seed(const std::filesystem::path& path) {
  constexpr std::uintmax_t kLargest = 1 << 15;
  std::error_code failed;
  if (path.extension() != ".onnx" || std::filesystem::file_size(path, failed) > kLargest) return {};
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> read_seeds(const Options& options) {
  std::vector<std::string> seeds = seed_models();
  for (const auto& path : options.paths) {
    std::error_code failed;
    if (std::filesystem::is_regular_file(path, failed)) seeds.push_back(read_seed(path));
    if (!std::filesystem::is_directory(path, failed)) continue;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) seeds.push_back(read_seed(file));
  }
  std::erase_if(seeds, [](const std::string& seed) { return seed.empty(); });
  return seeds;
}

class Run {
 public:
  explicit Run(const Options& options) : options_(options), random_(options.seed) {}

  int run() {
    for (const std::string& seed : read_seeds(options_)) attempt(seed, true);
    std::printf("%zu seeds, %ld of them sound, %zu places reached\n", corpus_.size(), sound_, edges);
    const auto begin = std::chrono::steady_clock::now();
    auto next_line = begin + std::chrono::seconds(60);
    while (runs_ < options_.runs) {
      attempt(mutated(pick(), pick(), random_), false);
      const auto now = std::chrono::steady_clock::now();
      if (options_.seconds > 0 && now - begin > std::chrono::seconds(options_.seconds)) break;
      if (now < next_line) continue;
      next_line = now + std::chrono::seconds(60);
      print();
    }
    print();
    return 0;
  }

 private:
  /// What was kept last is tried more often.
  const std::string& pick() {
    const std::size_t size = corpus_.size();
    const bool recent = random_() % 3 == 0;
    return corpus_[recent ? size - 1 - random_() % std::min<std::size_t>(size, 200) : random_() % size];
  }

  void attempt(const std::string& bytes, bool is_seed) {
    constexpr std::size_t kLargest = 1 << 15, kMostKept = 20000;
    current = &bytes;
    const std::size_t before = edges;
    ::alarm(20);
    sound_ += import_bytes(bytes) ? 1 : 0;
    ++runs_;
    if (is_seed || (edges > before && bytes.size() <= kLargest && corpus_.size() < kMostKept)) corpus_.push_back(bytes);
    current = nullptr;
  }

  void print() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%ld runs, %ld sound, %zu kept, %zu places reached, %ld MiB at most\n", runs_, sound_, corpus_.size(), edges, usage.ru_maxrss / 1024);
    std::fflush(stdout);
  }

  const Options& options_;
  Random random_;
  std::vector<std::string> corpus_;
  long runs_ = 0, sound_ = 0;
};

}  // namespace
}  // namespace vkfuse::onnx

int main(int argc, char** argv) {
  using namespace vkfuse::onnx;
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "vkfuse-fuzz-onnx [--runs N] [--seconds N] [--seed N] [--save FOLDER] [FILE | FOLDER]...\n");
    return 2;
  }
  if (!options.save.empty()) crash_file = options.save + "/crash.onnx";
  for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    // The sanitizer has handlers of its own, and calls back.
    if (__sanitizer_set_death_callback == nullptr || signal == SIGALRM || signal == SIGABRT) std::signal(signal, on_signal);
  }
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(save_current);
  return Run(options).run();
}
