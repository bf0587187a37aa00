// One device under test, and how much work it is given.
#pragma once

#include <map>

#include "data.hpp"
#include "peak_kernels.hpp"
#include "rows.hpp"
#include "runtime/context.hpp"
#include "timing.hpp"

namespace vkfuse::bench {

/// An empty folder of this process, which goes with it.
class ScratchFolder {
 public:
  static Result<std::shared_ptr<const ScratchFolder>> create();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

struct Session {
  std::shared_ptr<runtime::Context> context;
  std::shared_ptr<const ScratchFolder> store;  ///< of compiled kernels, empty when the session starts
  bool quick = true;
  bool check_only = false;              ///< every program runs once and is compared; nothing is timed
  std::string spoil;                    ///< name of a row to compute from wrong data: shows that the check is alive
  std::map<Instruction, double> peaks;  ///< 10^9 operations a second, as far as they have been measured

  [[nodiscard]] const vulkan::DeviceInfo& info() const { return context->device()->info(); }
  [[nodiscard]] bool on_cpu() const { return info().type == DeviceType::cpu; }
  [[nodiscard]] TimingOptions timing() const;
  /// Elements that the reference may evaluate per output, about: half a second of it, or two.
  [[nodiscard]] double work() const { return quick ? 0x1p21 : 0x1p23; }
  /// The same where one element takes more, as of a sum over everything. A row that needs more yet is run smaller.
  [[nodiscard]] double most_work() const { return quick ? 0x1.1p25 : 0x1.1p27; }
  /// Of rows that are models, whose values the reference computes whole, on all cores: by its model of one core.
  [[nodiscard]] double most_core_seconds() const { return quick ? 50 : 400; }
};

/// A row at the size it runs here.
struct Case {
  const Row* row = nullptr;
  std::vector<std::int64_t> sizes;
  std::string name;  ///< as reports have it
  ir::Graph graph;
  /// The graph in as many parts as a framework has kernels; empty if those are the graph's ops.
  std::vector<ir::Graph> framework;
  std::int64_t bytes = 0;  ///< inputs and outputs, each once
  int sets = 1;            ///< of buffers to rotate through
  bool aside = false;      ///< the graph is not the row's: a copy, or what the row is timed beside
};

/// Divides the row's outer dimensions by what suits the kind of device and the suite and by `smaller`, then by two
/// until everything fits its memory and its limits, and can be checked in time. Sizes that were asked for are
/// taken as they are, or refused.
Result<Case> make_case(const Session& session, const Request& request, std::int64_t smaller = 1);

/// What the case's row is timed beside, at the sizes that go with the case's. Nothing: the row has none.
Result<std::optional<Case>> make_beside_case(const Session& session, const Case& of);

/// A copy of as many bytes, in and out together, through the same code generator. Several tensors
/// where one would be too large for a buffer.
Result<Case> make_copy_case(const Session& session, const Case& of);

}  // namespace vkfuse::bench
