#include "parallel/functions.hpp"

#include <mutex>
#include <optional>

#include "base/error.hpp"

namespace vkfuse::parallel {

namespace {

class FunctionsTransport final : public Transport {
 public:
  explicit FunctionsTransport(TransportFunctions functions) : functions_(std::move(functions)) {}

  [[nodiscard]] int rank() const override { return functions_.rank; }
  [[nodiscard]] int size() const override { return functions_.size; }

  Result<void> exchange(const Exchange& exchange) override {
    if (auto error = broken()) return *std::move(error);
    Result<void> done;
    try {
      done = functions_.exchange(exchange);
    } catch (...) {
      break_with(make_error(ErrorCode::internal, "The exchange of rank {} has thrown.", functions_.rank));
      throw;
    }
    if (!done) {
      break_with(done.error());
      return done;
    }
    for (std::size_t i = 0; exchange.received && i < exchange.receives.size(); ++i) exchange.received(i);
    return {};
  }

  void fail(std::string_view sentence) override {
    break_with(make_error(ErrorCode::io, "{}", sentence));
    bool is_first = false;
    {
      const std::scoped_lock lock(mutex_);
      is_first = !std::exchange(has_told_, true);
    }
    if (is_first && functions_.fail) functions_.fail(sentence);
  }

 private:
  [[nodiscard]] std::optional<Error> broken() const {
    const std::scoped_lock lock(mutex_);
    return broken_;
  }
  /// The first error stays.
  void break_with(Error error) {
    const std::scoped_lock lock(mutex_);
    if (!broken_) broken_ = std::move(error);
  }

  TransportFunctions functions_;
  mutable std::mutex mutex_;
  std::optional<Error> broken_;
  bool has_told_ = false;
};

}  // namespace

Result<std::shared_ptr<Transport>> transport_of(TransportFunctions functions) {
  if (functions.size < 1) return invalid("A job has one rank or more, but {} are given.", functions.size);
  if (functions.rank < 0 || functions.rank >= functions.size) {
    return invalid("A job of {} ranks has the ranks 0 to {}, but rank {} is given.", functions.size, functions.size - 1,
                   functions.rank);
  }
  return std::shared_ptr<Transport>(std::make_shared<FunctionsTransport>(std::move(functions)));
}

}  // namespace vkfuse::parallel
