// A folder with a checkpoint of Hugging Face as one ModelFile.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model/files/mapped_file.h"
#include "engine/model/files/model_file.h"

namespace hone::model {

struct OpenedFolder {
  ModelFile model;                                       // without path, identity and memory
  std::vector<std::shared_ptr<const MappedFile>> files;  // config.json, then those with weights
  std::shared_ptr<const void> copies;                    // of tensors that are not aligned where they lie
};

// `only`: the name of the one .safetensors file to take where no index says that there are more; "": the one that there
// is. Errors name the file in the folder.
Result<OpenedFolder> open_folder(const std::string& folder, const std::string& only, bool with_vocabulary);

// Of tokenizer.json and its neighbours there.
Result<Vocabulary> vocabulary_of_folder(const std::string& folder);

}  // namespace hone::model
