// Runs the importer on mutated models, for ctest: any compiler, the same models every time. libfuzzer.cpp keeps what reaches new
// code and mutates it further.
//
//     vkfuse-fuzz-onnx [--runs N] [--seconds N] [--seed N] [--save FOLDER] [FILE | FOLDER]...
//
// Folders are searched for models (.onnx), which are seeds. What brings the process down is left in FOLDER as crash.onnx, the
// slowest model beyond a second as slow.onnx.
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

// What is being tried, for the handlers below.
const std::string* current = nullptr;
std::string save_folder;

}  // namespace

extern "C" {
/// Of the address sanitizer, where there is one.
void __attribute__((weak)) __sanitizer_set_death_callback(void (*)());
}

namespace vkfuse::onnx {
namespace {

constexpr unsigned kMostSeconds = 20;  // of one input, on a machine with much else to do
constexpr double kSlow = 1;            // seconds that are worth a file

void save(const std::string& bytes, const char* name) {
  if (save_folder.empty()) return;
  if (std::FILE* file = std::fopen((save_folder + "/" + name).c_str(), "wb")) {
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
  }
}

void save_current() {
  if (current != nullptr) save(*current, "crash.onnx");
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
  explicit Run(const Options& options) : options_(options), random_(options.seed), seeds_(read_seeds(options)) {}

  int run() {
    for (const std::string& seed : seeds_) attempt(seed);
    std::printf("%zu seeds, %ld of them sound\n", seeds_.size(), sound_);
    const auto begin = std::chrono::steady_clock::now();
    auto next_line = begin + std::chrono::seconds(60);
    while (runs_ < options_.runs) {
      attempt(mutated(pick(), pick(), random_));
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
  /// What stands last, models of several nodes, is tried more often.
  const std::string& pick() {
    const std::size_t size = seeds_.size();
    const bool last = random_() % 3 == 0;
    return seeds_[last ? size - 1 - random_() % std::min<std::size_t>(size, 200) : random_() % size];
  }

  void attempt(const std::string& bytes) {
    current = &bytes;
    ::alarm(kMostSeconds);
    const auto begin = std::chrono::steady_clock::now();
    sound_ += import_bytes(bytes) ? 1 : 0;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    ++runs_;
    current = nullptr;
    if (took.count() <= slowest_) return;
    slowest_ = took.count();
    if (slowest_ > kSlow) save(bytes, "slow.onnx");
  }

  void print() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%ld runs, %ld sound, %ld MiB at most, the slowest %.2f s\n", runs_, sound_, usage.ru_maxrss / 1024, slowest_);
    std::fflush(stdout);
  }

  const Options& options_;
  Random random_;
  std::vector<std::string> seeds_;
  long runs_ = 0, sound_ = 0;
  double slowest_ = 0;
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
  save_folder = options.save;
  for (const int signal : {SIGALRM, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    // The sanitizer has handlers of its own, and calls back.
    if (__sanitizer_set_death_callback == nullptr || signal == SIGALRM || signal == SIGABRT) std::signal(signal, on_signal);
  }
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(save_current);
  return Run(options).run();
}
