#pragma once

#include <set>
#include <string>
#include <vector>

#include "data/formats.h"

namespace dpo::data {

// Which columns the rows of anyone's data have, and which of them are read.
class ColumnUse {
 public:
  explicit ColumnUse(const ColumnNames& names) : names_(names) {}

  void add(const Value& row);

  // A column that data.columns names and no row had, in words; empty if there is none.
  std::string problem() const;

  // Columns that no row was read by, but those that data.columns switches off.
  std::vector<std::string> unread() const;

 private:
  const ColumnNames& names_;
  std::vector<std::string> last_;  // the names of the row before
  std::set<std::string> seen_, read_;
};

}  // namespace dpo::data
