//! Names of pods that the kubelet tells, from time to time.
//!
//! It is asked on a thread of its own: a kubelet that is slow to answer must not delay a reading. That thread has no
//! capabilities: whoever can answer in the kubelet's stead gets nothing by it.

use std::{
    panic,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use crate::{
    host::{Kubelet, KubeletError, Names},
    kernel::Capabilities,
};

/// Between two times that it is asked.
const EVERY: Duration = Duration::from_secs(10);

/// What a kubelet told last. Dropping the last one of it ends its thread.
#[derive(Clone, Debug)]
pub(super) struct Pods {
    kubelet: Kubelet,
    told: Arc<Mutex<Arc<Names>>>,
}

impl Pods {
    /// Asks once.
    ///
    /// # Errors
    /// When it does not tell.
    pub(super) fn ask(kubelet: Kubelet) -> Result<Self, KubeletError> {
        let ask = || {
            // No worse than before where the kernel refuses.
            let _ = Capabilities::NONE.keep_only();
            kubelet.names()
        };
        let asked = thread::scope(|scope| scope.spawn(ask).join());
        let names = asked.unwrap_or_else(|fault| panic::resume_unwind(fault))?;
        Ok(Self { kubelet, told: Arc::new(Mutex::new(Arc::new(names))) })
    }

    /// Goes on asking, on a thread without capabilities. While it is not answered, what was told before holds.
    pub(super) fn keep_asking(&self) {
        let Self { kubelet, told } = self.clone();
        let told = Arc::downgrade(&told);
        thread::spawn(move || {
            let _ = Capabilities::NONE.keep_only();
            loop {
                thread::sleep(EVERY);
                let names = kubelet.names();
                let Some(told) = told.upgrade() else { return };
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                if let Ok(names) = names.map(Arc::new)
                    && names != *told
                {
                    *told = names;
                }
            }
        });
    }

    /// What was told last; the same as before where nothing is new.
    pub(super) fn told(&self) -> Arc<Names> {
        Arc::clone(&self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
