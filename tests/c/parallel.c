/* Programs of several ranks: annotations, transports of threads and of the caller's, runs, faults, and what is refused.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

enum { kRows = 8, kWidth = 16, kHidden = 32, kRanks = 2 };

static float x_values[kRows * kWidth], w1_values[kWidth * kHidden], w2_values[kHidden * kWidth];

/* Small whole numbers, whose sums are exact in any order. */
static void fill(float* values, size_t count, int step) {
  for (size_t i = 0; i < count; ++i) values[i] = (float)((int)i * step % 7 - 3);
}

static const vkf_host_input kInputs[3] = {{"x", x_values, sizeof x_values, NULL, 0},
                                          {"w1", w1_values, sizeof w1_values, NULL, 0},
                                          {"w2", w2_values, sizeof w2_values, NULL, 0}};

static vkf_value matmul(vkf_graph* graph, vkf_value a, vkf_value b) {
  const int64_t left[1] = {1}, right[1] = {0};
  const vkf_attribute attributes[] = {vkf_attribute_integers("contract_a", left, 1),
                                      vkf_attribute_integers("contract_b", right, 1)};
  vkf_value product = 0;
  OK(vkf_apply(graph, &(vkf_op){"dot", attributes, 2}, (const vkf_value[]){a, b}, 2, &product));
  return product;
}

/* The same, with w1 on stage 0 and w2 on stage 1 of a pipeline, in micro-batches of rows; `part` is on stage 1. */
static vkf_graph* pipeline(void) {
  vkf_graph* graph = NULL;
  vkf_value x = 0, w1 = 0, w2 = 0, y = 0;
  const vkf_dim shape_x[2] = {{kRows, NULL, 0, 0, 0}, {kWidth, NULL, 0, 0, 0}};
  const vkf_dim shape_1[2] = {{kWidth, NULL, 0, 0, 0}, {kHidden, NULL, 0, 0, 0}};
  const vkf_dim shape_2[2] = {{kHidden, NULL, 0, 0, 0}, {kWidth, NULL, 0, 0, 0}};
  OK(vkf_graph_create("pipeline", &graph));
  OK(vkf_input(graph, "x", &(vkf_type){VKF_F32, shape_x, 2}, &x));
  OK(vkf_input(graph, "w1", &(vkf_type){VKF_F32, shape_1, 2}, &w1));
  OK(vkf_input(graph, "w2", &(vkf_type){VKF_F32, shape_2, 2}, &w2));
  OK(vkf_micro_batch(graph, x, 0, &x));
  OK(vkf_at_stage(graph, x, 0, 0, &x));
  y = matmul(graph, x, w1);
  OK(vkf_apply(graph, &(vkf_op){.name = "relu"}, &y, 1, &y));
  OK(vkf_at_stage(graph, y, 1, 0, &y));
  y = matmul(graph, y, w2);
  OK(vkf_output(graph, "y", y));
  OK(vkf_at_stage(graph, y, 1, 0, &y));
  OK(vkf_output(graph, "part", y));
  return graph;
}

/* y = relu(x w1) w2, with columns of w1 and rows of w2 divided; `part` is y, divided along its rows. */
static vkf_graph* mlp(void) {
  vkf_graph* graph = NULL;
  vkf_value x = 0, w1 = 0, w2 = 0, y = 0, part = 0;
  const vkf_dim shape_x[2] = {{kRows, NULL, 0, 0, 0}, {kWidth, NULL, 0, 0, 0}};
  const vkf_dim shape_1[2] = {{kWidth, NULL, 0, 0, 0}, {kHidden, NULL, 0, 0, 0}};
  const vkf_dim shape_2[2] = {{kHidden, NULL, 0, 0, 0}, {kWidth, NULL, 0, 0, 0}};
  OK(vkf_graph_create("mlp", &graph));
  OK(vkf_input(graph, "x", &(vkf_type){VKF_F32, shape_x, 2}, &x));
  OK(vkf_input(graph, "w1", &(vkf_type){VKF_F32, shape_1, 2}, &w1));
  OK(vkf_input(graph, "w2", &(vkf_type){VKF_F32, shape_2, 2}, &w2));
  OK(vkf_shard(graph, w1, 1, 0, &w1));
  OK(vkf_shard(graph, w2, -2, 0, &w2));
  y = matmul(graph, x, w1);
  OK(vkf_apply(graph, &(vkf_op){.name = "relu"}, &y, 1, &y));
  y = matmul(graph, y, w2);
  OK(vkf_replicate(graph, y, &y));
  OK(vkf_shard(graph, y, 0, 0, &part));
  OK(vkf_output(graph, "y", y));
  OK(vkf_output(graph, "part", part));
  return graph;
}

static void test_annotations(void) {
  vkf_graph* graph = NULL;
  vkf_value x = 0, y = 0;
  char* text = NULL;
  const vkf_dim shape[2] = {{4, NULL, 0, 0, 0}, {6, NULL, 0, 0, 0}};
  OK(vkf_graph_create("annotated", &graph));
  OK(vkf_input(graph, "x", &(vkf_type){VKF_F32, shape, 2}, &x));
  OK(vkf_shard(graph, x, 0, 1, &y));
  OK(vkf_shard(graph, y, -1, 0, &y)); /* annotations of one value add up */
  OK(vkf_output(graph, "both", y));
  OK(vkf_replicate(graph, y, &y));
  OK(vkf_output(graph, "whole", y));
  REFUSED(vkf_shard(NULL, x, 0, 0, &y), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_shard(graph, x, 0, 0, NULL), VKF_INVALID_ARGUMENT, "The place for the new value is null.");
  REFUSED(vkf_shard(graph, 99, 0, 0, &y), VKF_INVALID_ARGUMENT, "The value 99 does not exist: the graph has 4 values.");
  REFUSED(vkf_shard(graph, x, 2, 0, &y), VKF_INVALID_ARGUMENT, "'shard' names axis 2, but f32[4, 6] has 2 axes.");
  REFUSED(vkf_shard(graph, x, -3, 0, &y), VKF_INVALID_ARGUMENT, "'shard' names axis -3, but f32[4, 6] has 2 axes.");
  REFUSED(vkf_shard(graph, x, 0, -2, &y), VKF_INVALID_ARGUMENT, "'shard' names the axis -2 of the mesh");
  REFUSED(vkf_replicate(NULL, x, &y), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_replicate(graph, x, NULL), VKF_INVALID_ARGUMENT, "The place for the new value is null.");
  REFUSED(vkf_replicate(graph, 98, &y), VKF_INVALID_ARGUMENT, "The value 98 does not exist");
  OK(vkf_at_stage(graph, y, 1, 2, &y));
  OK(vkf_micro_batch(graph, y, -2, &y));
  OK(vkf_output(graph, "staged", y));
  REFUSED(vkf_at_stage(NULL, x, 0, 0, &y), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_at_stage(graph, x, 0, 0, NULL), VKF_INVALID_ARGUMENT, "The place for the new value is null.");
  REFUSED(vkf_at_stage(graph, 97, 0, 0, &y), VKF_INVALID_ARGUMENT, "The value 97 does not exist");
  REFUSED(vkf_at_stage(graph, x, -1, 0, &y), VKF_INVALID_ARGUMENT, "'at_stage' names the stage -1");
  REFUSED(vkf_at_stage(graph, x, 0, -1, &y), VKF_INVALID_ARGUMENT, "'at_stage' names the axis -1 of the mesh");
  REFUSED(vkf_micro_batch(NULL, x, 0, &y), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_micro_batch(graph, x, 0, NULL), VKF_INVALID_ARGUMENT, "The place for the new value is null.");
  REFUSED(vkf_micro_batch(graph, 96, 0, &y), VKF_INVALID_ARGUMENT, "The value 96 does not exist");
  REFUSED(vkf_micro_batch(graph, x, 2, &y), VKF_INVALID_ARGUMENT, "'micro_batch' names axis 2");
  OK(vkf_graph_text(graph, &text));
  CHECK(text != NULL && strstr(text, "shard mesh_axes=[1, 0] %0 : f32[4, 6]") != NULL);
  CHECK(text != NULL && strstr(text, "shard mesh_axes=[-1, -1] %2 : f32[4, 6]") != NULL);
  CHECK(text != NULL && strstr(text, "at_stage stage=1 mesh_axis=2 %3 : f32[4, 6]") != NULL);
  CHECK(text != NULL && strstr(text, "micro_batch axis=0 %4 : f32[4, 6]") != NULL);
  vkf_string_free(text);
  vkf_graph_free(graph);
}

/* ---- a transport of this program: messages in its memory ---- */

typedef struct message {
  int to;
  uint64_t number;
  size_t bytes;
  struct message* next;
  unsigned char data[];
} message;

typedef struct mail {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  message* sent[kRanks]; /* by each rank, in order; of two ranks the other one receives them */
  char failure[512];
  int failed; /* the rank that has; -1: none */
} mail;

typedef struct end_of_mail {
  mail* all;
  int rank;
  int exchanges; /* after so many the next one fails */
  int has_words; /* whether it says why */
  int failures, released;
} end_of_mail;

static message* take(mail* all, int from, uint64_t number) {
  message** link = &all->sent[from];
  while (*link != NULL && (*link)->number != number) link = &(*link)->next;
  message* found = *link;
  if (found != NULL) *link = found->next;
  return found;
}

static vkf_status receive(mail* all, const vkf_receive* one, vkf_exchange* exchange, const struct timespec* deadline) {
  message* found = NULL;
  while ((found = take(all, one->from, exchange->number)) == NULL) {
    if (all->failed == one->from) {
      snprintf(exchange->sentence, sizeof exchange->sentence, "Rank %d has failed: %.200s", one->from, all->failure);
      return VKF_IO;
    }
    if (pthread_cond_timedwait(&all->changed, &all->mutex, deadline) != 0) {
      snprintf(exchange->sentence, sizeof exchange->sentence, "Rank %d is silent after %g ms.", one->from,
               exchange->timeout_ms);
      return VKF_IO;
    }
  }
  CHECK(found->bytes == one->bytes);
  memcpy(one->data, found->data, one->bytes);
  free(found);
  return VKF_OK;
}

static vkf_status exchange_mail(void* user, vkf_exchange* exchange) {
  end_of_mail* own = user;
  mail* all = own->all;
  vkf_status status = VKF_OK;
  struct timespec deadline;
  CHECK(exchange->size == sizeof *exchange && exchange->timeout_ms > 0 && exchange->sentence[0] == '\0');
  if (own->exchanges-- == 0) {
    if (own->has_words) strcpy(exchange->sentence, "The cable of rank 1 is cut.");
    return VKF_IO;
  }
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += (time_t)(exchange->timeout_ms / 1000) + 1;
  pthread_mutex_lock(&all->mutex);
  for (size_t i = 0; i < exchange->send_count; ++i) {
    const vkf_send* one = &exchange->sends[i];
    message* made = malloc(sizeof *made + one->bytes);
    message** link = &all->sent[own->rank];
    CHECK(one->to == 1 - own->rank && one->bytes > 0);
    made->to = one->to;
    made->number = exchange->number;
    made->bytes = one->bytes;
    made->next = NULL;
    memcpy(made->data, one->data, one->bytes);
    while (*link != NULL) link = &(*link)->next;
    *link = made;
  }
  pthread_cond_broadcast(&all->changed);
  for (size_t i = 0; status == VKF_OK && i < exchange->receive_count; ++i)
    status = receive(all, &exchange->receives[i], exchange, &deadline);
  pthread_mutex_unlock(&all->mutex);
  return status;
}

static void fail_mail(void* user, const char* sentence) {
  end_of_mail* own = user;
  pthread_mutex_lock(&own->all->mutex);
  ++own->failures;
  if (own->all->failed < 0) own->all->failed = own->rank;
  snprintf(own->all->failure, sizeof own->all->failure, "%s", sentence);
  pthread_cond_broadcast(&own->all->changed);
  pthread_mutex_unlock(&own->all->mutex);
}

static void release_mail(void* user) { ++((end_of_mail*)user)->released; }

/* ---- ranks as threads ---- */

typedef struct rank_of_job {
  const vkf_device* device;
  vkf_transport* transport;
  const vkf_graph* graph;
  int64_t timeout_ms;
  int runs; /* until one fails */
  /* What came of it. */
  vkf_status status;
  char error[1024];
  float y[kRows * kWidth], part[kRows / kRanks * kWidth];
  size_t bytes_of_part;
} rank_of_job;

static void run_rank(rank_of_job* job, const vkf_parallel_program* program) {
  vkf_host_output out[2] = {{"y", job->y, sizeof job->y, 0}, {"part", job->part, sizeof job->part, 0}};
  for (int i = 0; i < job->runs && job->status == VKF_OK; ++i)
    job->status = vkf_parallel_program_run(program, kInputs, 3, out, 2);
  job->bytes_of_part = out[1].bytes;
}

/* The same by weights that are placed, results that stay, and one that is too large for its room. */
static void run_in_steps(rank_of_job* job, const vkf_parallel_program* program) {
  float y[kRows * kWidth] = {0}, small = 0;
  vkf_host_output out = {"y", y, sizeof y, 0}, narrow = {"y", &small, sizeof small, 0};
  vkf_kernel_time times[16];
  vkf_profile_report profile = {times, 16, 0};
  vkf_type_report type = {NULL, 0, VKF_BOOL, 0};
  char* text = NULL;
  OK(vkf_parallel_program_upload(program, &kInputs[1], 2));
  OK(vkf_parallel_program_run(program, kInputs, 1, &out, 1)); /* weights are there */
  CHECK(memcmp(y, job->y, sizeof y) == 0);
  OK(vkf_parallel_program_upload(program, kInputs, 3));
  OK(vkf_parallel_program_execute(program));
  memset(y, 0, sizeof y);
  OK(vkf_parallel_program_download(program, &out, 1));
  CHECK(memcmp(y, job->y, sizeof y) == 0 && out.bytes == sizeof y);
  REFUSED(vkf_parallel_program_run(program, kInputs, 3, &narrow, 1), VKF_INVALID_ARGUMENT,
          "The output 'y' takes 512 bytes, and there is room for 4.");
  CHECK(narrow.bytes == sizeof y && small == 0);
  memset(y, 0, sizeof y);
  OK(vkf_parallel_program_download(program, &out, 1)); /* the run was done */
  CHECK(memcmp(y, job->y, sizeof y) == 0);
  OK(vkf_parallel_program_profile(program, &profile));
  CHECK(profile.count > 0 && profile.count <= 16 && strncmp(times[0].kernel, "part 0", 6) == 0);
  CHECK(vkf_parallel_program_kernel_count(program) >= 2 && vkf_parallel_program_collective_count(program) == 1);
  OK(vkf_parallel_program_explain(program, &text));
  CHECK(text != NULL && strstr(text, "all_reduce_sum") != NULL && strstr(text, "why:") != NULL);
  vkf_string_free(text);
  CHECK(vkf_parallel_program_input_count(program) == 3 && vkf_parallel_program_output_count(program) == 2);
  CHECK(strcmp(vkf_parallel_program_input_name(program, 1), "w1") == 0);
  CHECK(strcmp(vkf_parallel_program_output_name(program, 1), "part") == 0);
  CHECK(vkf_parallel_program_input_name(program, 3) == NULL && vkf_parallel_program_output_name(program, 2) == NULL);
  OK(vkf_parallel_program_type(program, "w1", &type));
  CHECK(type.dtype == VKF_F32 && type.rank == 2);
  REFUSED(vkf_parallel_program_type(program, "w3", &type), VKF_NOT_FOUND, "no input and no output 'w3'");
}

static void* rank_thread(void* user) {
  rank_of_job* job = user;
  vkf_parallel_program* program = NULL;
  const int mesh[1] = {kRanks};
  const vkf_parallel_options options = {sizeof options, mesh, 1, job->timeout_ms, 0, NULL, 0};
  job->status = vkf_compile_parallel(job->device, job->transport, job->graph, &options, &program);
  if (job->status == VKF_OK) run_rank(job, program);
  if (job->status == VKF_OK) run_in_steps(job, program);
  if (job->status != VKF_OK) {
    snprintf(job->error, sizeof job->error, "%s", vkf_last_error());
    if (program != NULL) CHECK(vkf_parallel_program_execute(program) == job->status); /* no later run succeeds */
  }
  vkf_parallel_program_free(program);
  return NULL;
}

static void run_job(rank_of_job* ranks) {
  pthread_t threads[kRanks];
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(vkf_transport_rank(ranks[rank].transport) == rank && vkf_transport_size(ranks[rank].transport) == kRanks);
    CHECK(pthread_create(&threads[rank], NULL, rank_thread, &ranks[rank]) == 0);
  }
  for (int rank = 0; rank < kRanks; ++rank) pthread_join(threads[rank], NULL);
}

/* Both ranks have all of y, and each half of the rows. */
static void check_results(const rank_of_job* ranks, const float* expected) {
  for (int rank = 0; rank < kRanks; ++rank) {
    const rank_of_job* one = &ranks[rank];
    if (one->status != VKF_OK) fprintf(stderr, "rank %d: %s\n", rank, one->error);
    CHECK(one->status == VKF_OK);
    CHECK(memcmp(one->y, expected, sizeof one->y) == 0);
    CHECK(one->bytes_of_part == sizeof one->part);
    CHECK(memcmp(one->part, expected + (size_t)rank * kRows / kRanks * kWidth, sizeof one->part) == 0);
  }
}

static void test_threads(const vkf_device* device, const vkf_graph* graph, const float* expected) {
  vkf_transport* transports[kRanks] = {NULL};
  rank_of_job ranks[kRanks];
  memset(ranks, 0, sizeof ranks);
  OK(vkf_thread_transports(kRanks, transports));
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks[rank].device = device;
    ranks[rank].transport = transports[rank];
    ranks[rank].graph = graph;
    ranks[rank].timeout_ms = 60000;
    ranks[rank].runs = 3;
  }
  run_job(ranks);
  check_results(ranks, expected);
  for (int rank = 0; rank < kRanks; ++rank) vkf_transport_free(transports[rank]);
}

/* Each stage is given what it reads: x and w1, or w2. */
static void* stage_thread(void* user) {
  rank_of_job* job = user;
  const int rank = vkf_transport_rank(job->transport), mesh[1] = {kRanks};
  vkf_parallel_program* program = NULL;
  vkf_host_output out = {"y", job->y, sizeof job->y, 0}, part = {"part", job->y, sizeof job->y, 0};
  char* text = NULL;
  const vkf_parallel_options options = {
      .size = sizeof options, .mesh = mesh, .mesh_count = 1, .timeout_ms = job->timeout_ms, .micro_batches = 4};
  job->status = vkf_compile_parallel(job->device, job->transport, job->graph, &options, &program);
  if (job->status == VKF_OK) {
    CHECK(vkf_parallel_program_output_count(program) == (size_t)(rank + 1));
    OK(vkf_parallel_program_explain(program, &text));
    CHECK(text != NULL && strstr(text, rank == 0 ? "stage 0 of 2" : "stage 1 of 2") != NULL);
    CHECK(text != NULL && strstr(text, rank == 0 ? "reads w1, x" : "reads w2") != NULL);
    CHECK(vkf_parallel_program_collective_count(program) == 5); /* of four micro-batches, and of y */
    vkf_string_free(text);
    job->status = vkf_parallel_program_run(program, &kInputs[rank == 0 ? 0 : 2], rank == 0 ? 2 : 1, &out, 1);
  }
  if (job->status != VKF_OK) snprintf(job->error, sizeof job->error, "%s", vkf_last_error());
  if (job->status == VKF_OK && rank == 1) OK(vkf_parallel_program_download(program, &part, 1));
  if (job->status == VKF_OK && rank == 0)
    REFUSED(vkf_parallel_program_download(program, &part, 1), VKF_INVALID_ARGUMENT, "has no output 'part'");
  vkf_parallel_program_free(program);
  return NULL;
}

static void test_stages(const vkf_device* device, const float* expected) {
  vkf_graph* graph = pipeline();
  vkf_transport* transports[kRanks] = {NULL};
  vkf_program* one = NULL;
  float whole[kRows * kWidth] = {0};
  vkf_host_output out = {"y", whole, sizeof whole, 0};
  pthread_t threads[kRanks];
  rank_of_job ranks[kRanks];
  memset(ranks, 0, sizeof ranks);
  OK(vkf_thread_transports(kRanks, transports));
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks[rank].device = device;
    ranks[rank].transport = transports[rank];
    ranks[rank].graph = graph;
    ranks[rank].timeout_ms = 60000;
    CHECK(pthread_create(&threads[rank], NULL, stage_thread, &ranks[rank]) == 0);
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    pthread_join(threads[rank], NULL);
    if (ranks[rank].status != VKF_OK) fprintf(stderr, "stage %d: %s\n", rank, ranks[rank].error);
    CHECK(ranks[rank].status == VKF_OK && memcmp(ranks[rank].y, expected, sizeof whole) == 0);
    vkf_transport_free(transports[rank]);
  }
  OK(vkf_compile(device, graph, NULL, &one)); /* one device takes the values as they are */
  OK(vkf_run(one, kInputs, 3, &out, 1));
  CHECK(memcmp(whole, expected, sizeof whole) == 0);
  vkf_program_free(one);
  vkf_graph_free(graph);
}

/* A job over this program's own transport, whose rank 1 fails after so many exchanges. */
static void test_mail(const vkf_device* device, const vkf_graph* graph, const float* expected, int exchanges) {
  static const int words_of_failure[2] = {1, 0};
  for (int i = 0; i < (exchanges < 0 ? 1 : 2); ++i) {
    mail all = {.failed = -1};
    end_of_mail ends[kRanks];
    rank_of_job ranks[kRanks];
    memset(ranks, 0, sizeof ranks);
    memset(ends, 0, sizeof ends);
    pthread_mutex_init(&all.mutex, NULL);
    pthread_cond_init(&all.changed, NULL);
    for (int rank = 0; rank < kRanks; ++rank) {
      ends[rank].all = &all;
      ends[rank].rank = rank;
      ends[rank].exchanges = rank == 1 ? exchanges : -1;
      ends[rank].has_words = words_of_failure[i];
      const vkf_transport_functions functions = {sizeof functions, rank,         kRanks,     exchange_mail,
                                                 fail_mail,        release_mail, &ends[rank]};
      OK(vkf_transport_create(&functions, &ranks[rank].transport));
      ranks[rank].device = device;
      ranks[rank].graph = graph;
      ranks[rank].timeout_ms = 60000;
      ranks[rank].runs = 3;
    }
    run_job(ranks);
    if (exchanges < 0) {
      check_results(ranks, expected);
    } else {
      CHECK(ranks[0].status == VKF_IO && strstr(ranks[0].error, "Rank 1 has failed: ") != NULL);
      CHECK(ranks[1].status == VKF_IO && ends[1].failures == 1);
      if (words_of_failure[i]) CHECK(strstr(ranks[1].error, "The cable of rank 1 is cut.") == ranks[1].error);
      if (words_of_failure[i]) CHECK(strstr(ranks[0].error, "The cable of rank 1 is cut.") != NULL);
      if (!words_of_failure[i]) CHECK(strstr(ranks[1].error, "The transport of rank 1 gives status 8 in exchange"));
      {
        vkf_parallel_program* again = NULL; /* nothing is exchanged after an error, and the others are told once */
        const vkf_parallel_options options = {.size = sizeof options, .compile_timeout_ms = 1000};
        REFUSED(vkf_compile_parallel(device, ranks[1].transport, graph, &options, &again), VKF_IO, "rank 1");
        CHECK(ends[1].exchanges == -1 && ends[1].failures == 1);
      }
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      CHECK(ends[rank].released == 0);
      vkf_transport_free(ranks[rank].transport);
      CHECK(ends[rank].released == 1);
      for (message* left = all.sent[rank]; left != NULL;) {
        message* next = left->next;
        free(left);
        left = next;
      }
    }
    pthread_cond_destroy(&all.changed);
    pthread_mutex_destroy(&all.mutex);
  }
}

/* ---- what is refused ---- */

static void test_transports_refused(void) {
  vkf_transport* one[1] = {NULL};
  vkf_transport* other = NULL;
  end_of_mail end = {0};
  vkf_transport_functions functions = {sizeof functions, 2, 2, exchange_mail, fail_mail, release_mail, &end};
  vkf_nccl_options nccl = {sizeof nccl, NULL, "/none/libcuda.so", 0};
  REFUSED(vkf_thread_transports(2, NULL), VKF_INVALID_ARGUMENT, "The place for the new transports is null.");
  REFUSED(vkf_thread_transports(0, one), VKF_INVALID_ARGUMENT, "A job has 1 to 1024 ranks, but 0 are asked for.");
  REFUSED(vkf_thread_transports(-4, one), VKF_INVALID_ARGUMENT, "but -4 are asked for.");
  REFUSED(vkf_transport_create(NULL, &other), VKF_INVALID_ARGUMENT, "The structure of functions is null.");
  REFUSED(vkf_transport_create(&functions, NULL), VKF_INVALID_ARGUMENT, "The place for the new transport is null.");
  REFUSED(vkf_transport_create(&functions, &other), VKF_INVALID_ARGUMENT,
          "A job of 2 ranks has the ranks 0 to 1, but rank 2 is given.");
  functions.ranks = 0;
  REFUSED(vkf_transport_create(&functions, &other), VKF_INVALID_ARGUMENT,
          "A job has one rank or more, but 0 are given.");
  functions.ranks = 3;
  functions.exchange = NULL;
  REFUSED(vkf_transport_create(&functions, &other), VKF_INVALID_ARGUMENT,
          "The function 'exchange' of rank 2's transport is null.");
  functions.size = 3;
  REFUSED(vkf_transport_create(&functions, &other), VKF_INVALID_ARGUMENT,
          "The functions of a transport say that they have 3 bytes; set `size` to sizeof.");
  CHECK(end.released == 0 && other == NULL);
  OK(vkf_thread_transports(1, one));
  REFUSED(vkf_open_nccl(NULL, &nccl, &other), VKF_INVALID_ARGUMENT, "The transport of messages is null.");
  REFUSED(vkf_open_nccl(one[0], &nccl, &other), VKF_UNSUPPORTED, "/none/libcuda.so");
  nccl.size = 1;
  REFUSED(vkf_open_nccl(one[0], &nccl, &other), VKF_INVALID_ARGUMENT, "set `size` to sizeof.");
  REFUSED(vkf_transport_fail(NULL, "Why."), VKF_INVALID_ARGUMENT, "The transport is null.");
  REFUSED(vkf_transport_fail(one[0], NULL), VKF_INVALID_ARGUMENT, "The sentence is null.");
  CHECK(vkf_transport_rank(NULL) == -1 && vkf_transport_size(NULL) == 0);
  vkf_transport_free(one[0]);
  vkf_transport_free(NULL);
}

static void test_compilation_refused(const vkf_device* device, const vkf_graph* graph) {
  vkf_transport* transports[kRanks] = {NULL};
  vkf_parallel_program* program = NULL;
  const int mesh[1] = {3};
  vkf_graph* empty = NULL;
  const vkf_compile_options budget = {.size = sizeof budget, .memory_budget = 77};
  vkf_parallel_options options = {sizeof options, mesh, 1, 0, 0, NULL, 0};
  OK(vkf_graph_create("empty", &empty));
  OK(vkf_thread_transports(kRanks, transports));
  vkf_transport* one = transports[0];
  REFUSED(vkf_compile_parallel(NULL, one, graph, NULL, &program), VKF_INVALID_ARGUMENT, "The device is null.");
  REFUSED(vkf_compile_parallel(device, NULL, graph, NULL, &program), VKF_INVALID_ARGUMENT, "The transport is null.");
  REFUSED(vkf_compile_parallel(device, one, NULL, NULL, &program), VKF_INVALID_ARGUMENT, "The graph is null.");
  REFUSED(vkf_compile_parallel(device, one, graph, NULL, NULL), VKF_INVALID_ARGUMENT,
          "The place for the new program is null.");
  REFUSED(vkf_compile_parallel(device, one, graph, &(vkf_parallel_options){.size = 2}, &program), VKF_INVALID_ARGUMENT,
          "say that they have 2 bytes; set `size` to sizeof.");
  REFUSED(vkf_compile_parallel(device, one, graph, &(vkf_parallel_options){.size = sizeof options, .mesh_count = 1},
                               &program),
          VKF_INVALID_ARGUMENT, "The list of axes of a mesh is null, but has a count of 1.");
  REFUSED(vkf_compile_parallel(device, one, graph, &options, &program), VKF_INVALID_ARGUMENT,
          "A mesh of [3] has 3 ranks, but the job has 2.");
  options.timeout_ms = -5;
  REFUSED(vkf_compile_parallel(device, one, graph, &options, &program), VKF_INVALID_ARGUMENT, "-5 ms and 120000 ms");
  options.timeout_ms = 1;
  options.compile_timeout_ms = -6;
  REFUSED(vkf_compile_parallel(device, one, graph, &options, &program), VKF_INVALID_ARGUMENT, "1 ms and -6 ms");
  options.compile_timeout_ms = 1;
  options.micro_batches = -3;
  REFUSED(vkf_compile_parallel(device, one, graph, &options, &program), VKF_INVALID_ARGUMENT, "but -3 are asked for");
  options.micro_batches = 0;
  options.compile = &budget;
  REFUSED(vkf_compile_parallel(device, one, graph, &options, &program), VKF_UNSUPPORTED, "77 bytes");
  REFUSED(vkf_compile_parallel(device, one, empty, NULL, &program), VKF_INVALID_ARGUMENT, "has no outputs.");
  CHECK(program == NULL);
  /* The other rank knows the first of these errors. */
  REFUSED(vkf_compile_parallel(device, transports[1], graph, &(vkf_parallel_options){.size = sizeof options}, &program),
          VKF_IO, "Rank 0 has failed: The device is null.");
  for (int rank = 0; rank < kRanks; ++rank) vkf_transport_free(transports[rank]);
  OK(vkf_thread_transports(kRanks, transports));
  REFUSED(vkf_compile_parallel(device, transports[0], graph, &(vkf_parallel_options){.size = 2}, &program),
          VKF_INVALID_ARGUMENT, "2 bytes");
  REFUSED(vkf_compile_parallel(device, transports[1], graph, &(vkf_parallel_options){.size = sizeof options}, &program),
          VKF_IO, "Rank 0 has failed: The options of a program of several ranks say that they have 2 bytes");
  for (int rank = 0; rank < kRanks; ++rank) vkf_transport_free(transports[rank]);
  OK(vkf_thread_transports(kRanks, transports));
  OK(vkf_transport_fail(transports[1], "Its data are gone."));
  REFUSED(vkf_compile_parallel(device, transports[0], graph, NULL, &program), VKF_IO,
          "Rank 1 has failed: Its data are gone.");
  for (int rank = 0; rank < kRanks; ++rank) vkf_transport_free(transports[rank]);
  vkf_graph_free(empty);
}

/* A job of one rank is enough to see what a program refuses before it runs. */
static void test_programs_refused(const vkf_device* device, const vkf_graph* graph) {
  vkf_transport* transport[1] = {NULL};
  vkf_parallel_program* program = NULL;
  float y[kRows * kWidth];
  vkf_host_output out = {"y", y, sizeof y, 0};
  vkf_profile_report profile = {NULL, 0, 0};
  vkf_type_report type = {NULL, 0, VKF_F32, 0};
  char* text = NULL;
  OK(vkf_thread_transports(1, transport));
  OK(vkf_compile_parallel(device, transport[0], graph, NULL, &program));
  vkf_transport_free(transport[0]); /* the program keeps it */
  REFUSED(vkf_parallel_program_run(NULL, kInputs, 3, &out, 1), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_parallel_program_run(program, NULL, 3, &out, 1), VKF_INVALID_ARGUMENT, "The list of inputs is null");
  REFUSED(vkf_parallel_program_run(program, kInputs, 3, NULL, 1), VKF_INVALID_ARGUMENT, "The list of outputs is null");
  out.name = NULL;
  REFUSED(vkf_parallel_program_run(program, kInputs, 3, &out, 1), VKF_INVALID_ARGUMENT,
          "The name of an output is null.");
  out.name = "z";
  REFUSED(vkf_parallel_program_run(program, kInputs, 3, &out, 1), VKF_INVALID_ARGUMENT,
          "The program has no output 'z'.");
  REFUSED(vkf_parallel_program_download(program, &out, 1), VKF_INVALID_ARGUMENT, "The program has no output 'z'.");
  out.name = "y";
  out.data = NULL;
  REFUSED(vkf_parallel_program_run(program, kInputs, 3, &out, 1), VKF_INVALID_ARGUMENT,
          "The memory of an output is null.");
  out.data = y;
  REFUSED(vkf_parallel_program_download(program, &out, 1), VKF_INVALID_ARGUMENT, "0 runs have ended.");
  REFUSED(vkf_parallel_program_profile(program, &profile), VKF_INVALID_ARGUMENT, "0 runs have ended.");
  REFUSED(vkf_parallel_program_profile(program, NULL), VKF_INVALID_ARGUMENT, "The place for the times is null.");
  REFUSED(vkf_parallel_program_upload(program, &(vkf_host_input){"w9", y, sizeof y, NULL, 0}, 1), VKF_INVALID_ARGUMENT,
          "'w9'");
  OK(vkf_parallel_program_run(program, kInputs, 3, &out, 1)); /* nothing of that was an error of the job */
  REFUSED(vkf_parallel_program_run(program, kInputs, 2, &out, 1), VKF_INVALID_ARGUMENT, "Input 'w2'");
  REFUSED(vkf_parallel_program_run(program, kInputs, 3, &out, 1), VKF_INVALID_ARGUMENT, "Input 'w2'"); /* this was */
  REFUSED(vkf_parallel_program_upload(NULL, kInputs, 3), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_parallel_program_execute(NULL), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_parallel_program_download(NULL, &out, 1), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_parallel_program_profile(NULL, &profile), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_parallel_program_explain(NULL, &text), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_parallel_program_explain(program, NULL), VKF_INVALID_ARGUMENT, "The place for the text is null.");
  REFUSED(vkf_parallel_program_type(NULL, "y", &type), VKF_INVALID_ARGUMENT, "The program is null.");
  REFUSED(vkf_parallel_program_type(program, NULL, &type), VKF_INVALID_ARGUMENT, "is null.");
  REFUSED(vkf_parallel_program_type(program, "y", NULL), VKF_INVALID_ARGUMENT, "The place for the type is null.");
  CHECK(vkf_parallel_program_kernel_count(NULL) == 0 && vkf_parallel_program_collective_count(NULL) == 0);
  CHECK(vkf_parallel_program_input_count(NULL) == 0 && vkf_parallel_program_output_count(NULL) == 0);
  CHECK(vkf_parallel_program_input_name(NULL, 0) == NULL && vkf_parallel_program_output_name(NULL, 0) == NULL);
  vkf_parallel_program_free(program);
  vkf_parallel_program_free(NULL);
}

void test_parallel(const vkf_device* device) {
  vkf_graph* graph = mlp();
  vkf_program* one = NULL;
  float expected[kRows * kWidth] = {0};
  vkf_host_output out = {"y", expected, sizeof expected, 0};
  fill(x_values, kRows * kWidth, 3);
  fill(w1_values, kWidth * kHidden, 5);
  fill(w2_values, kHidden * kWidth, 11);
  OK(vkf_compile(device, graph, NULL, &one));
  OK(vkf_run(one, kInputs, 3, &out, 1));
  CHECK(expected[0] != 0 && expected[kWidth] != expected[0]);
  test_annotations();
  test_threads(device, graph, expected);
  test_stages(device, expected);
  test_mail(device, graph, expected, -1);
  test_mail(device, graph, expected, 0); /* while ranks compile */
  test_mail(device, graph, expected, 3); /* in the first run */
  test_transports_refused();
  test_compilation_refused(device, graph);
  test_programs_refused(device, graph);
  vkf_program_free(one);
  vkf_graph_free(graph);
}
