// Ranks that are processes of an MPI job. The one file that calls MPI.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "parallel/silence.hpp"
#include "vkfuse/mpi.hpp"

namespace vkfuse {

namespace {

/// Messages are sent in pieces, so that counts fit an int and later pieces are on their way while one is read.
constexpr std::size_t kPiece = 4 << 20;
/// Tags of exchanges; MPI promises 32,767. The last one is that of failures.
constexpr int kTags = 32'000, kFailureTag = 32'001;
constexpr std::size_t kLongestSentence = 1024;
/// A rank that waits looks again after so long: cores may be shared with the other ranks.
constexpr int kEagerLooks = 200;
constexpr std::chrono::microseconds kLookAgain{50};

std::string text_of(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) return fmt::format("code {}", code);
  std::string sentence(text.data(), static_cast<std::size_t>(length));
  std::replace(sentence.begin(), sentence.end(), '\n', ' ');
  return sentence;
}

Error mpi_error(std::string_view call, int code) {
  return make_error(ErrorCode::io, "{} failed: {}.", call, text_of(code));
}

/// MPI as this process has it: initialised by the caller or by the first transport.
struct Runtime {
  bool is_ours = false;
  bool has_failed = false;  ///< a rank has: nothing is waited for any more
  ~Runtime() {
    int finalized = 0;
    if (is_ours && !has_failed && MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) MPI_Finalize();
  }
};

Result<std::shared_ptr<Runtime>> running_mpi() {
  static std::weak_ptr<Runtime> one;
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  if (auto running = one.lock()) return running;
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized != 0)
    return invalid("MPI has been finalised in this process, and cannot be initialised again: {}.", finalized);
  auto made = std::make_shared<Runtime>();
  if (initialized == 0) {
    // UCX, which MPICH is built on, ends a process that reads the memory of another one which has died. Its other ways
    // through shared memory do not. What the user has set stays.
    setenv("UCX_TLS", "^cma", 0);
    int level = 0;
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level);
    if (code != MPI_SUCCESS) return mpi_error("MPI_Init_thread", code);
    made->is_ours = true;
    if (level < MPI_THREAD_SERIALIZED)
      return invalid("This MPI lets the thread alone that initialised it call it (level {}), and programs run on any.",
                     level);
  }
  one = made;
  return made;
}

/// One message in flight.
struct Piece {
  MPI_Request request = MPI_REQUEST_NULL;
  int other = 0;
  std::size_t bytes = 0;
  std::size_t receive = kNone;  ///< which receive of the exchange it is of
  static constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(std::shared_ptr<Runtime> runtime, MPI_Comm communicator, int rank, int size)
      : runtime_(std::move(runtime)), communicator_(communicator), rank_(rank), size_(size) {}
  ~MpiTransport() override {
    // Freeing waits for the other ranks, in some implementations; after MPI_Finalize() it would end the process.
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!broken_ && finalized == 0) MPI_Comm_free(&communicator_);
  }

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  Result<void> exchange(const Exchange& exchange) override;
  void fail(std::string_view sentence) override;

 private:
  struct Flight {
    std::vector<Piece> pieces;
    std::vector<std::size_t> left;  ///< pieces of each receive
    std::size_t open = 0;
  };

  Result<void> post(const Exchange& exchange, Flight& flight);
  Result<void> post_receive(const Receive& receive, int tag, std::size_t index, Flight& flight);
  Result<void> post_send(const Send& send, int tag, Flight& flight);
  /// Whether something has arrived or was sent.
  Result<bool> look(const Exchange& exchange, Flight& flight);
  Result<void> complete(const Exchange& exchange, Flight& flight, Piece& piece, const MPI_Status& status);
  /// The sentence of a rank that has failed, if one has sent it.
  std::optional<Error> failure();
  [[nodiscard]] Error silence(const Flight& flight) const;
  /// Nothing is exchanged after an error; what may still be written to stays alive.
  Error break_with(Error error, const Exchange& exchange, Flight& flight);

  std::shared_ptr<Runtime> runtime_;
  MPI_Comm communicator_;
  int rank_, size_;
  std::optional<Error> broken_;
};

Result<void> MpiTransport::post_receive(const Receive& receive, int tag, std::size_t index, Flight& flight) {
  for (std::size_t at = 0; at < receive.bytes.size(); at += kPiece) {
    Piece piece{MPI_REQUEST_NULL, receive.from, std::min(kPiece, receive.bytes.size() - at), index};
    const int code = MPI_Irecv(receive.bytes.data() + at, static_cast<int>(piece.bytes), MPI_BYTE, receive.from, tag,
                               communicator_, &piece.request);
    if (code != MPI_SUCCESS)
      return make_error(ErrorCode::io, "Rank {} cannot receive from rank {}: {}.", rank_, receive.from, text_of(code));
    flight.pieces.push_back(piece);
    ++flight.left[index];
    ++flight.open;
  }
  return {};
}

Result<void> MpiTransport::post_send(const Send& send, int tag, Flight& flight) {
  for (std::size_t at = 0; at < send.bytes.size(); at += kPiece) {
    Piece piece{MPI_REQUEST_NULL, send.to, std::min(kPiece, send.bytes.size() - at)};
    const int code = MPI_Isend(send.bytes.data() + at, static_cast<int>(piece.bytes), MPI_BYTE, send.to, tag,
                               communicator_, &piece.request);
    if (code != MPI_SUCCESS)
      return make_error(ErrorCode::io, "Rank {} cannot send to rank {}: {}.", rank_, send.to, text_of(code));
    flight.pieces.push_back(piece);
    ++flight.open;
  }
  return {};
}

/// Receives first: what arrives then need not be stored on its way.
Result<void> MpiTransport::post(const Exchange& exchange, Flight& flight) {
  const int tag = static_cast<int>(exchange.number % kTags);
  flight.left.assign(exchange.receives.size(), 0);
  for (std::size_t i = 0; i < exchange.receives.size(); ++i)
    VKF_CHECK_OK(post_receive(exchange.receives[i], tag, i, flight));
  for (const Send& send : exchange.sends) VKF_CHECK_OK(post_send(send, tag, flight));
  return {};
}

Result<void> MpiTransport::complete(const Exchange& exchange, Flight& flight, Piece& piece, const MPI_Status& status) {
  --flight.open;
  if (piece.receive == Piece::kNone) return {};
  int count = 0;
  MPI_Get_count(&status, MPI_BYTE, &count);
  if (static_cast<std::size_t>(count) != piece.bytes) {
    return make_error(ErrorCode::io, "Rank {} sent {} bytes where rank {} expects {}.", piece.other, count, rank_,
                      piece.bytes);
  }
  if (--flight.left[piece.receive] == 0 && exchange.received) exchange.received(piece.receive);
  return {};
}

Result<bool> MpiTransport::look(const Exchange& exchange, Flight& flight) {
  bool any = false;
  for (Piece& piece : flight.pieces) {
    if (piece.request == MPI_REQUEST_NULL) continue;
    int done = 0;
    MPI_Status status;
    const int code = MPI_Test(&piece.request, &done, &status);
    if (code != MPI_SUCCESS) {
      piece.request = MPI_REQUEST_NULL;
      return make_error(ErrorCode::io, "Rank {} lost rank {}: {}.", rank_, piece.other, text_of(code));
    }
    if (done == 0) continue;
    any = true;
    VKF_CHECK_OK(complete(exchange, flight, piece, status));
  }
  return any;
}

std::optional<Error> MpiTransport::failure() {
  int is_there = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, kFailureTag, communicator_, &is_there, &status) != MPI_SUCCESS || is_there == 0)
    return std::nullopt;
  std::string sentence(kLongestSentence, '\0');
  int length = 0;
  MPI_Get_count(&status, MPI_CHAR, &length);
  if (length < 0 || static_cast<std::size_t>(length) > sentence.size()) return std::nullopt;
  if (MPI_Recv(sentence.data(), length, MPI_CHAR, status.MPI_SOURCE, kFailureTag, communicator_, MPI_STATUS_IGNORE) !=
      MPI_SUCCESS)
    return std::nullopt;
  sentence.resize(static_cast<std::size_t>(length));
  return make_error(ErrorCode::io, "Rank {} has failed: {}", status.MPI_SOURCE, sentence);
}

Error MpiTransport::silence(const Flight& flight) const {
  std::set<int> silent, deaf;
  for (const Piece& piece : flight.pieces) {
    if (piece.request == MPI_REQUEST_NULL) continue;
    (piece.receive == Piece::kNone ? deaf : silent).insert(piece.other);
  }
  return parallel::silence(rank_, silent, deaf);
}

Error MpiTransport::break_with(Error error, const Exchange& exchange, Flight& flight) {
  broken_ = error;
  runtime_->has_failed = true;
  for (Piece& piece : flight.pieces) {
    if (piece.request == MPI_REQUEST_NULL || piece.receive == Piece::kNone) continue;
    MPI_Cancel(&piece.request);
  }
  // A message that cannot be taken back may be written or read at any time: its bytes outlive this process's use of
  // MPI.
  static_cast<void>(new std::shared_ptr<void>(exchange.memory));
  return error;
}

Result<void> MpiTransport::exchange(const Exchange& exchange) {
  if (broken_) return *broken_;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) {
    broken_ = invalid("Rank {} runs a program after MPI_Finalize().", rank_);
    return *broken_;
  }
  Flight flight;
  // What others sent before they failed may be here; a job goes on with all of its ranks or with none.
  if (auto failed = failure()) return break_with(*std::move(failed), exchange, flight);
  if (auto posted = post(exchange, flight); !posted) return break_with(std::move(posted).error(), exchange, flight);
  for (int looks = 0; flight.open > 0; ++looks) {
    // A process that did not run for a while looks once more: what it waits for may have come.
    const bool is_late = std::chrono::steady_clock::now() >= exchange.deadline;
    auto moved = look(exchange, flight);
    if (!moved) return break_with(std::move(moved).error(), exchange, flight);
    if (*moved) {
      looks = 0;
      continue;
    }
    if (auto failed = failure()) return break_with(*std::move(failed), exchange, flight);
    if (is_late) return break_with(silence(flight), exchange, flight);
    if (looks < kEagerLooks) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kLookAgain);
    }
  }
  return {};
}

void MpiTransport::fail(std::string_view sentence) {
  if (!broken_) broken_ = make_error(ErrorCode::io, "{}", sentence);
  runtime_->has_failed = true;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  // As of break_with: nobody waits until these have gone out.
  const auto* text = new std::string(sentence.substr(0, kLongestSentence));
  for (int other = 0; other < size_; ++other) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (other == rank_) continue;
    if (MPI_Isend(text->data(), static_cast<int>(text->size()), MPI_CHAR, other, kFailureTag, communicator_,
                  &request) != MPI_SUCCESS)
      continue;
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);  // lets MPI begin
  }
}

}  // namespace

Result<std::shared_ptr<Transport>> open_mpi(const MpiOptions& options) {
  VKF_TRY(running, running_mpi());
  const MPI_Comm from =
      options.communicator != nullptr ? *static_cast<const MPI_Comm*>(options.communicator) : MPI_COMM_WORLD;
  MPI_Comm own = MPI_COMM_NULL;
  if (const int code = MPI_Comm_dup(from, &own); code != MPI_SUCCESS) return mpi_error("MPI_Comm_dup", code);
  if (const int code = MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN); code != MPI_SUCCESS)
    return mpi_error("MPI_Comm_set_errhandler", code);
  int rank = 0, size = 0;
  if (const int code = MPI_Comm_rank(own, &rank); code != MPI_SUCCESS) return mpi_error("MPI_Comm_rank", code);
  if (const int code = MPI_Comm_size(own, &size); code != MPI_SUCCESS) return mpi_error("MPI_Comm_size", code);
  return std::shared_ptr<Transport>(std::make_shared<MpiTransport>(std::move(running), own, rank, size));
}

}  // namespace vkfuse
