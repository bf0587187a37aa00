// Ranks that are threads of one process: letters in shared memory.
#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "parallel/silence.hpp"
#include "vkfuse/parallel.hpp"

namespace vkfuse {

namespace {

constexpr int kMostRanks = 1024;

/// What the ranks of a job share.
struct Post {
  struct Key {
    int from, to;
    std::uint64_t number;
    auto operator<=>(const Key&) const = default;
  };
  std::mutex mutex;
  std::condition_variable arrived;
  std::map<Key, std::deque<std::vector<std::byte>>> letters;
  std::optional<Error> failure;  ///< of the rank that failed first
  int failed_rank = -1;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Post> post, int rank, int size) : post_(std::move(post)), rank_(rank), size_(size) {}

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }

  Result<void> exchange(const Exchange& exchange) override {
    std::vector<std::vector<std::byte>> letters;  // copied while others go on: they may be large
    for (const Send& one : exchange.sends) letters.emplace_back(one.bytes.begin(), one.bytes.end());
    std::unique_lock lock(post_->mutex);
    // What others sent before they failed may be here; a job goes on with all of its ranks or with none.
    if (broken_) return *broken_;
    if (post_->failure && post_->failed_rank != rank_) return break_with(*post_->failure);
    for (std::size_t i = 0; i < letters.size(); ++i)
      post_->letters[{rank_, exchange.sends[i].to, exchange.number}].push_back(std::move(letters[i]));
    post_->arrived.notify_all();
    std::vector<bool> has(exchange.receives.size(), false);
    for (std::size_t missing = has.size(); missing > 0;) {
      if (broken_) return *broken_;
      VKF_TRY(taken, take_all(exchange, has, lock));
      missing -= taken;
      if (missing == 0) break;
      if (taken > 0) continue;  // more may have come while a letter was read
      if (post_->failure && post_->failed_rank != rank_) return break_with(*post_->failure);
      if (std::chrono::steady_clock::now() >= exchange.deadline) return break_with(silence(exchange, has));
      post_->arrived.wait_until(lock, exchange.deadline);
    }
    return {};
  }

  void fail(std::string_view sentence) override {
    const std::scoped_lock lock(post_->mutex);
    if (!broken_) broken_ = make_error(ErrorCode::io, "{}", sentence);
    if (post_->failure) return;
    post_->failure = make_error(ErrorCode::io, "Rank {} has failed: {}", rank_, sentence);
    post_->failed_rank = rank_;
    post_->arrived.notify_all();
  }

 private:
  /// Every letter that is there. The lock is open while one is told about.
  Result<std::size_t> take_all(const Exchange& exchange, std::vector<bool>& has, std::unique_lock<std::mutex>& lock) {
    std::size_t taken = 0;
    std::map<int, bool> blocked;  // letters of a rank come in order
    for (std::size_t i = 0; i < has.size(); ++i) {
      const Receive& one = exchange.receives[i];
      if (has[i] || blocked[one.from]) continue;
      const auto found = post_->letters.find({one.from, rank_, exchange.number});
      if (found == post_->letters.end()) {
        blocked[one.from] = true;
        continue;
      }
      const std::vector<std::byte> letter = std::move(found->second.front());
      found->second.pop_front();
      if (found->second.empty()) post_->letters.erase(found);
      if (letter.size() != one.bytes.size()) {
        return break_with(make_error(ErrorCode::io, "Rank {} sent {} bytes where rank {} expects {}.", one.from,
                                     letter.size(), rank_, one.bytes.size()));
      }
      has[i] = true;
      ++taken;
      lock.unlock();
      std::memcpy(one.bytes.data(), letter.data(), letter.size());
      if (exchange.received) exchange.received(i);
      lock.lock();
    }
    return taken;
  }

  [[nodiscard]] Error silence(const Exchange& exchange, const std::vector<bool>& has) const {
    std::set<int> silent;
    for (std::size_t i = 0; i < has.size(); ++i) {
      if (!has[i]) silent.insert(exchange.receives[i].from);
    }
    return parallel::silence(rank_, silent, {});
  }

  Error break_with(Error error) {
    broken_ = error;
    return error;
  }

  std::shared_ptr<Post> post_;
  int rank_, size_;
  std::optional<Error> broken_;
};

}  // namespace

Result<std::vector<std::shared_ptr<Transport>>> thread_transports(int ranks) {
  if (ranks < 1 || ranks > kMostRanks)
    return invalid("A job has 1 to {} ranks, but {} are asked for.", kMostRanks, ranks);
  const auto post = std::make_shared<Post>();
  std::vector<std::shared_ptr<Transport>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(std::make_shared<ThreadTransport>(post, rank, ranks));
  return all;
}

}  // namespace vkfuse
