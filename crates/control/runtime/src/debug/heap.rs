//! What holds memory, as jemalloc knows it, if that is the program's allocator and was told to note it.

use jemalloc_pprof::PROF_CTL;

use super::aside;
use crate::serve::Page;

const OFF: &str = "nothing is noted of memory: start the program with _RJEM_MALLOC_CONF=prof:true in its environment, and \
                   with concert_runtime::Jemalloc as its global allocator\n";

pub(super) async fn page() -> Page {
    let Some(control) = PROF_CTL.as_ref() else { return Page::text(501, OFF) };
    aside(move || {
        let profile = control.blocking_lock().dump_pprof();
        profile.map(|body| Page { code: 200, kind: "application/octet-stream", body: body.into() })
    })
    .await
}
