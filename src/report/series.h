#pragma once

#include <cstddef>
#include <vector>

namespace dpo::report {

struct Point {
  double x = 0, y = 0;
};

// A metric of a run, in memory that does not grow with the run: beyond kMostGroups values, neighbours are
// kept as groups, of which only the sum and the first value are known.
class Series {
 public:
  static constexpr std::size_t kMostGroups = 4096;

  void add(const Point& point);

  std::size_t size() const { return size_; }  // values that were added
  bool empty() const { return size_ == 0; }
  const Point& last() const { return last_; }  // must not be empty
  double largest() const { return largest_; }  // must not be empty
  double median() const;  // NaN if empty; in a long run, that of the first values of groups

  // At most `most` points: means of that many groups of neighbours.
  std::vector<Point> means(std::size_t most) const;

  // At most `most` (2 or more) of the values, evenly chosen, with the first and the last.
  std::vector<Point> some(std::size_t most) const;

 private:
  struct Group {
    Point sum, first;
    std::size_t count = 0;
  };
  void merge_groups();

  std::vector<Group> groups_;
  std::size_t stride_ = 1;  // values in each group but the last, which may have fewer
  std::size_t size_ = 0;
  Point last_;
  double largest_ = 0;
};

// At most `most` (2 or more) of `count` indices, evenly chosen, with the first and the last.
std::vector<std::size_t> some_of(std::size_t count, std::size_t most);

}  // namespace dpo::report
