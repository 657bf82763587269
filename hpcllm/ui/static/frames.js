// Slows down what runs in every frame of the chat page; comes before Gradio's own scripts.
"use strict";
(() => {
  // A frame that is asked for within a frame is a loop of Gradio's: the timer of its loading screen
  // never ends and would have the page drawn without end, which takes time from a model on the
  // same machine. Nothing that is seen moves by such a loop; style sheets move what moves.
  const LOOP_MS = 1000; // between two rounds of a loop
  const nextFrame = requestAnimationFrame.bind(window);
  let isInFrame = false;
  window.requestAnimationFrame = (callback) => {
    const draw = (time) => {
      isInFrame = true;
      try { callback(time); } finally { isInFrame = false; }
    };
    if (!isInFrame) return nextFrame(draw);
    setTimeout(nextFrame, LOOP_MS, draw);
    return 0;
  };
})();
