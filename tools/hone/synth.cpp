// hone synth: a model with the geometry of a real one and random weights, as GGUF. How fast a model runs does not
// depend on what it learnt, so benchmarks need no download.
#include <fmt/format.h>

#include <filesystem>

#include "tools/hone/cli.h"
#include "tools/hone/json.h"
#include "tools/hone/new_file.h"
#include "tools/hone/status_line.h"
#include "tools/synthetic/model.h"
#include "tools/synthetic/tensors.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

struct SynthArgs {
  std::string geometry, dtype = "bf16", output;
  uint64_t seed = 1;
  bool force = false, json = false;
};

std::string names() {
  std::string text;
  for (const synthetic::Geometry& g : synthetic::geometries())
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", g.name, g.about);
  return text;
}

constexpr int64_t kShown = int64_t{16} << 20;  // a smaller file takes no time

// What is there stays unless --force says otherwise. A file that would not fit is not begun: the disk is others' too.
Status check_place(const SynthArgs& args, int64_t bytes) {
  std::error_code error;
  if (fs::exists(args.output, error) && !fs::is_regular_file(args.output, error))
    return {};  // NewFile knows what to do
  if (fs::exists(args.output, error) && !args.force)
    return invalid_argument(fmt::format("{} is there already; give --force to replace it", printable(args.output)));
  const fs::path folder = fs::weakly_canonical(fs::absolute(args.output, error), error).parent_path();
  const fs::space_info space = fs::space(folder, error);
  if (!error && space.available < static_cast<uint64_t>(bytes))
    return resource_exhausted(fmt::format("{} takes {} bytes, the disk has {} left", printable(args.output), bytes,
                                          static_cast<uint64_t>(space.available)));
  return {};
}

int64_t parameters_of(const synthetic::SyntheticModel& model) {
  int64_t parameters = 0;
  for (const synthetic::Tensor& t : synthetic::tensors_of(model.config)) parameters += t.elements();
  return parameters;
}

// Interrupted: nothing of the file is left, and the Status is ok.
Status write_model(const SynthArgs& args, const synthetic::SyntheticModel& model, int64_t bytes) {
  HONE_ASSIGN_OR_RETURN(NewFile file, NewFile::create(args.output, "model.gguf"));
  StatusLine line;
  int64_t done = 0;
  const Status written = synthetic::write_gguf(model, [&](std::string_view piece) -> Status {
    if (interrupted()) return unavailable("interrupted");
    done += static_cast<int64_t>(piece.size());
    if (bytes >= kShown)
      line.show([&] { return fmt::format("{}: {} of {} MB", args.output, done >> 20, bytes >> 20); });
    return file.write(piece);
  });
  if (interrupted()) return {};
  HONE_RETURN_IF_ERROR(written);
  return file.commit();
}

int run_synth(const SynthArgs& args) {
  Result<synthetic::SyntheticModel> model = synthetic::synthetic_model(args.geometry);
  if (!model.ok()) return fail(model.status());
  model->dtype = *parse_dtype(args.dtype);
  model->seed = args.seed;
  const int64_t bytes = synthetic::gguf_bytes(*model);
  if (const Status status = check_place(args, bytes); !status.ok()) return fail(status);
  if (const Status status = write_model(args, *model, bytes); !status.ok()) return fail(status);
  if (interrupted()) {
    note("interrupted: nothing was written");
    return kInterrupted;
  }
  if (args.json) {
    print("{}\n", dump({{"path", args.output},
                        {"geometry", args.geometry},
                        {"dtype", args.dtype},
                        {"seed", args.seed},
                        {"parameters", parameters_of(*model)},
                        {"bytes", bytes}}));
    return kDone;
  }
  print("{}: {}, {}, seed {}, {} parameters, {} bytes\n", printable(args.output), args.geometry, args.dtype, args.seed,
        parameters_of(*model), bytes);
  return kDone;
}

}  // namespace

void add_synth(CLI::App& app, Run& run) {
  CLI::App* command = app.add_subcommand(
      "synth", "write a model file with the geometry of a real model and random weights, for benchmarks");
  auto args = std::make_shared<SynthArgs>();
  command->add_option("geometry", args->geometry, names())->required()->check(not_empty());
  command->add_option("-o,--output", args->output, "the file, such as model.gguf")->required()->check(not_empty());
  command->add_option("--dtype", args->dtype, "of matrices: f32, f16 or bf16 (default: bf16)")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  command->add_option("--seed", args->seed, "of the weights (1); equal seeds give equal files")->check(seed());
  command->add_flag("--force", args->force, "replace a file that is there");
  command->add_flag("--json", args->json, "one JSON object");
  command->callback([args, &run] { run = [args] { return run_synth(*args); }; });
}

}  // namespace hone::cli
