#include "muster/core/group/store_news.h"

#include <utility>

#include "absl/log/log.h"
#include "absl/strings/strip.h"
#include "muster/core/group/operation_census.h"

namespace muster {

void StoreNews::Start(absl::AnyInvocable<void(absl::Status)> ready) {
  ready_ = std::move(ready);
  session_watch_ = store_->Watch(
      kSessionKeyPrefix, [self = weak_from_this()](absl::StatusOr<std::vector<WatchEvent>> events) {
        if (auto news = self.lock()) news->OnSessions(std::move(events));
      });
  record_watch_ = store_->Watch(
      kGroupKeyPrefix, [self = weak_from_this()](absl::StatusOr<std::vector<WatchEvent>> events) {
        if (auto news = self.lock()) news->OnRecords(std::move(events));
      });
  late_watch_ = store_->Watch(
      kLateKeyPrefix, [self = weak_from_this()](absl::StatusOr<std::vector<WatchEvent>> events) {
        if (auto news = self.lock()) news->OnLate(std::move(events));
      });
}

void StoreNews::OnLate(absl::StatusOr<std::vector<WatchEvent>> events) {
  if (!events.ok()) return OnLost(events.status());
  for (const WatchEvent& event : *events) {
    if (event.kind == WatchEvent::Kind::kDelete) continue;
    const absl::string_view group = absl::StripPrefix(event.entry.key, kLateKeyPrefix);
    const std::map<Listener*, std::string> listeners = listeners_;
    for (const auto& [listener, name] : listeners) {
      if (name == group.substr(0, group.rfind('/')) && listeners_.count(listener) != 0) {
        listener->OnAsked(group, event.entry.revision);
      }
    }
  }
}

void StoreNews::Stop() {
  store_->Unwatch(session_watch_);
  store_->Unwatch(record_watch_);
  store_->Unwatch(late_watch_);
  listeners_.clear();
  TellReady(absl::CancelledError("the pool was closed while it joined the store"));
}

void StoreNews::Subscribe(const std::string& name, Listener* listener) {
  listeners_[listener] = name;
  if (!lost_.ok()) {
    listener->OnStoreLost(lost_);
    return;
  }
  if (auto known = records_.find(name); known != records_.end()) {
    listener->OnRecord(known->second.revision, known->second.record);
  }
}

void StoreNews::TellSessions(Listener* listener) {
  const std::map<int, SessionRecord> sessions = sessions_;
  for (const auto& [rank, session] : sessions) {
    if (session.liveness == SessionRecord::Liveness::kLeft) continue;
    if (listeners_.count(listener) != 0) listener->OnSession(session);
  }
}

void StoreNews::Learn(const std::string& name, const Entry& entry) {
  const auto known = records_.find(name);
  if (entry.revision <= (known == records_.end() ? 0 : known->second.revision)) return;
  absl::StatusOr<GroupRecord> record = GroupRecord::Decode(entry.value);
  if (record.ok()) records_[name] = Known{entry.revision, *std::move(record)};
}

void StoreNews::Unsubscribe(Listener* listener) { listeners_.erase(listener); }

void StoreNews::OnSessions(absl::StatusOr<std::vector<WatchEvent>> events) {
  if (!events.ok()) return OnLost(events.status());
  for (const WatchEvent& event : *events) {
    if (event.kind == WatchEvent::Kind::kDelete) {
      continue;  // a session's record stays: it says how it ended
    }
    absl::StatusOr<SessionRecord> session = SessionRecord::Decode(event.entry.value);
    if (!session.ok()) {
      LOG(ERROR) << "the store's '" << event.entry.key
                 << "' is not a session record: " << session.status();
      continue;
    }
    // Who had left before we came may come again, and what it left for is not our affair.
    if (!have_sessions_ && session->liveness == SessionRecord::Liveness::kLeft) continue;
    sessions_[session->rank] = *session;
    const std::map<Listener*, std::string> listeners = listeners_;  // one may unsubscribe meanwhile
    for (const auto& [listener, name] : listeners) {
      if (listeners_.count(listener) != 0) listener->OnSession(*session);
    }
  }
  have_sessions_ = true;
  if (have_records_) TellReady(absl::OkStatus());
}

void StoreNews::OnRecords(absl::StatusOr<std::vector<WatchEvent>> events) {
  if (!events.ok()) return OnLost(events.status());
  for (const WatchEvent& event : *events) {
    const std::string name(absl::StripPrefix(event.entry.key, kGroupKeyPrefix));
    if (event.kind == WatchEvent::Kind::kDelete) continue;  // a record is never deleted by us
    absl::StatusOr<GroupRecord> record = GroupRecord::Decode(event.entry.value);
    if (!record.ok()) {
      LOG(ERROR) << "the store's '" << event.entry.key
                 << "' is not a group record: " << record.status();
      continue;
    }
    if (event.entry.revision > records_[name].revision) {
      records_[name] = Known{event.entry.revision, *record};
    }
    const std::map<Listener*, std::string> listeners = listeners_;
    for (const auto& [listener, wanted] : listeners) {
      if (wanted == name && listeners_.count(listener) != 0) {
        listener->OnRecord(event.entry.revision, *record);
      }
    }
  }
  have_records_ = true;
  if (have_sessions_) TellReady(absl::OkStatus());
}

void StoreNews::OnLost(const absl::Status& why) {
  if (!lost_.ok()) return;
  lost_ = why;
  const std::map<Listener*, std::string> listeners = listeners_;
  for (const auto& [listener, name] : listeners) {
    if (listeners_.count(listener) != 0) listener->OnStoreLost(why);
  }
  TellReady(why);
}

void StoreNews::TellReady(absl::Status status) {
  if (ready_) std::exchange(ready_, nullptr)(std::move(status));
}

}  // namespace muster
