//! What a manager runs beside controllers.

use std::future::Future;
use std::pin::Pin;

use tokio_util::sync::CancellationToken;

use super::Phase;

/// Any error, as components give it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Something that runs until it is told to stop. Any `FnOnce(Context)` that gives a future is one.
pub trait Runnable: Send + 'static {
    /// Runs. Returning `Ok` means that it is over, an error stops the whole process.
    fn run(self, context: Context) -> impl Future<Output = Result<(), BoxError>> + Send + 'static;

    /// One to run should this process lead again after it was deposed
    /// ([`OnLost::Rejoin`](super::OnLost::Rejoin)). Without it, being deposed ends the process.
    fn again(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

impl<F, R> Runnable for F
where
    F: FnOnce(Context) -> R + Send + 'static,
    R: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    fn run(self, context: Context) -> impl Future<Output = Result<(), BoxError>> + Send + 'static {
        self(context)
    }
}

/// A function that can be run again whenever this process leads.
pub fn repeatable<F, R>(function: F) -> impl Runnable
where
    F: Fn(Context) -> R + Clone + Send + 'static,
    R: Future<Output = Result<(), BoxError>> + Send + 'static,
{
    struct Repeatable<F>(F);

    impl<F, R> Runnable for Repeatable<F>
    where
        F: Fn(Context) -> R + Clone + Send + 'static,
        R: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        fn run(self, context: Context) -> impl Future<Output = Result<(), BoxError>> + Send + 'static {
            (self.0)(context)
        }

        fn again(&self) -> Option<Self> {
            Some(Self(self.0.clone()))
        }
    }

    Repeatable(function)
}

/// What a component is told.
#[derive(Debug)]
pub struct Context {
    /// Cancelled when it should come to its end.
    pub cancel: CancellationToken,
    pub(super) ready: Option<CancellationToken>,
}

impl Context {
    /// Tells that the next phase may start. A component that returns has told so too.
    pub fn ready(&mut self) {
        if let Some(ready) = self.ready.take() {
            ready.cancel();
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.ready();
    }
}

type Running = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// [`Runnable`] as an object.
trait AnyRunnable: Send {
    fn start(self: Box<Self>, context: Context) -> Running;
    fn again(&self) -> Option<Box<dyn AnyRunnable>>;
}

impl<R: Runnable> AnyRunnable for R {
    fn start(self: Box<Self>, context: Context) -> Running {
        Box::pin((*self).run(context))
    }

    fn again(&self) -> Option<Box<dyn AnyRunnable>> {
        Runnable::again(self).map(|again| Box::new(again) as Box<dyn AnyRunnable>)
    }
}

/// A runnable with its name and phase.
pub(super) struct Component {
    pub(super) phase: Phase,
    pub(super) name: String,
    runnable: Box<dyn AnyRunnable>,
}

impl Component {
    pub(super) fn new(phase: Phase, name: impl Into<String>, runnable: impl Runnable) -> Self {
        Self { phase, name: name.into(), runnable: Box::new(runnable) }
    }

    pub(super) fn start(self, context: Context) -> Running {
        self.runnable.start(context)
    }

    pub(super) fn again(&self) -> Option<Self> {
        let runnable = self.runnable.again()?;
        Some(Self { phase: self.phase, name: self.name.clone(), runnable })
    }
}
